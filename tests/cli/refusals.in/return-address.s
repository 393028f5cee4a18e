        .globl  f
        .type   f, @function
f:      pop     %rax
        jmp     *%rax
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
