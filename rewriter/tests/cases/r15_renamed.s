# Stock code that uses r15 and does not use rbx.
.globl f
.type f,@function
f:
    push %r15
    mov %rdi,%r15
    call g
    mov %r15b,(%rax)
    lea (%rax,%r15,4),%eax
    pop %r15
    ret
.size f,.-f
