        .globl  f
        .type   f, @function
f:      mov     $5, %eax
        lea     f + 1(%rip), %rdx
        ret
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
