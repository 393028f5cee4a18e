        .globl  f
        .type   f, @function
f:      lretq
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
