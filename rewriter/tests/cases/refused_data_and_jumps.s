# With an indirect jump what is read may be run, too.
.globl f
.type f,@function
f:  lea 1f(%rip),%rax
    mov (%rax),%ecx
    jmp *%rdi
1:  .byte 6
.size f,.-f
