        .globl  f
        .type   f, @function
f:      ret
        .size   f, . - f
        .globl  chosen
        .type   chosen, @gnu_indirect_function
        .set    chosen, f
        .section .note.GNU-stack,"",@progbits
