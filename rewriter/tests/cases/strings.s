# String stores are masked; flags that live across them are saved.
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
