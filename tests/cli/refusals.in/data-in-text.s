        .globl  f
        .type   f, @function
f:      lea     table(%rip), %rax
        ret
table:  .byte   0x06, 0x0e, 0x16
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
