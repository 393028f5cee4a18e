        .globl  f
        .type   f, @function
f:      pushw   $7
        pop     %ax
        ret
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
