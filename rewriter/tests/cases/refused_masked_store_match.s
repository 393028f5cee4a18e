# mode: match
# A masked store has no check of its segment.
        .globl  f
        .type   f,@function
f:      maskmovdqu %xmm1,%xmm0
        ret
        .size   f,.-f
