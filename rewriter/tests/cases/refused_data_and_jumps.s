# With an indirect jump, bytes that are read may be executed, too.
.globl f
.type f,@function
f:  lea 1f(%rip),%rax
    mov (%rax),%ecx
    jmp *%rdi
1:  .byte 6
.size f,.-f
