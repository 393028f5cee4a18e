        .globl  f
        .type   f, @function
f:      mov     (%rsp), %rax
        ret
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
