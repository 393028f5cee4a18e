        .globl  f
        .type   f, @function
f:      lea     table(%rip), %rax
        movslq  (%rax), %rcx
        ret
        .size   f, . - f
        .section .rodata
table:  .long   f + 3 - table
        .section .note.GNU-stack,"",@progbits
