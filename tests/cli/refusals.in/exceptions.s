        .globl  f
        .type   f, @function
f:      ret
        .size   f, . - f
        .section .gcc_except_table,"a",@progbits
        .byte   0xff, 0xff, 0x01, 0x00
        .section .note.GNU-stack,"",@progbits
