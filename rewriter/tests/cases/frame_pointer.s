# leave and alloca.
.globl f
.type f,@function
f:
    push %rbp
    mov %rsp,%rbp
    push %rbx
    sub %rdi,%rsp
    and $-16,%rsp
    mov %rsp,%rdi
    call g
    mov -8(%rbp),%rbx
    leave
    ret
.size f,.-f
