# Masked stores with a segment, at 32-bit addresses, or of MMX.
        .globl  f
        .type   f,@function
f:      .byte   0x64
        maskmovdqu %xmm1,%xmm0
        .byte   0x67
        maskmovdqu %xmm1,%xmm0
        maskmovq %mm1,%mm0
        ret
        .size   f,.-f
