# A leaf leaves r15 unchanged, so the red zone lies 8 bytes lower.
.globl f
.type f,@function
f:
    mov %edi,-4(%rsp)
    mov 8(%rsp),%rax
    add -4(%rsp),%eax
    ret
.size f,.-f
