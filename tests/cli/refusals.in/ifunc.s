        .globl  chosen
        .type   chosen, @gnu_indirect_function
chosen: lea     f(%rip), %rax
        ret
        .size   chosen, . - chosen
        .globl  f
        .type   f, @function
f:      jmp     chosen + 7
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
