        .globl  f
        .type   f, @function
f:      lea     x@tlsgd(%rip), %rsi
        mov     %rsi, %rax
        ret
        .size   f, . - f
        .section .note.GNU-stack,"",@progbits
