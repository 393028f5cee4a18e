# mode: full
# Stores of the bytes that a mask selects.
        .globl  f
        .type   f,@function
f:      maskmovdqu %xmm1,%xmm0
        mov     %rdi,%rax
        ret
        .size   f,.-f
