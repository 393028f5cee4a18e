        .globl  f
        .type   f, @function
f:      std
        rep movsb
        cld
        ret
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
