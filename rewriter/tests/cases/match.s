# mode: match
# A check before the store; flags live across it are kept.
.globl f
.type f,@function
f:
    mov %rax,8(%rdi)
    cmp %esi,%ecx
    mov %rax,8(%rdi)
    je 1f
    nop
1:  ret
.size f,.-f
