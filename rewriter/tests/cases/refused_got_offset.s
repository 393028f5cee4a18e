# A domain has no GOT that an offset could mean.
        .globl  f
        .type   f,@function
f:      ret
        .data
        .quad   symbol@GOT
        .section .note.GNU-stack,"",@progbits
