        .globl  add
        .type   add, @function
add:    jmp     elsewhere
        .size   add, . - add
        .section .note.GNU-stack,"",@progbits
