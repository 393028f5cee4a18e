# mode: full
.globl f
.type f,@function
f:
    mov (%rdi,%rsi,8),%rax
    mov x(%rip),%ecx
    push 8(%rdi)
    add -8(%rsp),%rax
    lea 8(%rsp),%rdx
    vmovups (%rdi),%zmm0
    pop %rax
    ret
.size f,.-f
