# Prologue pushes and the adjustment merge into one lea, which also absorbs the hole of the return
# address.
.globl f
.type f,@function
f:
    push %rbp
    push %rbx
    sub $24,%rsp
    mov %rdi,8(%rsp)
    call g
    mov 8(%rsp),%rax
    add $24,%rsp
    pop %rbx
    pop %rbp
    ret
.size f,.-f
