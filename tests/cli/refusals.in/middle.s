        .globl  f
        .type   f, @function
f:      mov     $5, %eax
        jmp     f + 1
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
