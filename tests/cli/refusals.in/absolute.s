        .globl  f
        .type   f, @function
f:      cmp     $name, %edi
        jmp     g
        .size   f, . - f
        .section .rodata
name:   .string "name"
        .section .note.GNU-stack,"",@progbits
