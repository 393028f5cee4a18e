# A domain has no GOT, so an offset in one has no meaning.
        .globl  f
        .type   f,@function
f:      ret
        .data
        .quad   symbol@GOT
        .section .note.GNU-stack,"",@progbits
