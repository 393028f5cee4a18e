        .globl  f
        .type   f, @function
f:      std
        lodsb
        cld
        ret
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
