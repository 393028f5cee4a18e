        .globl  f
        .type   f, @function
f:      ret
        .size   f, . - f
        .section .debug_info,"",@progbits
        .long   100
        .value  4
        .section .debug_abbrev,"",@progbits
        .byte   1
        .section .note.GNU-stack,"",@progbits
