# String stores are masked. Flags that are live across them are saved.
.globl f
.type f,@function
f:
    rep stosq
    cmp %esi,%ecx
    rep movsb
    je 1f
    repne scasb
1:  lodsq
    ret
.size f,.-f
