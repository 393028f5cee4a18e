# mode: match
# A check precedes the store and keeps flags that are live across it.
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
