        .globl  add
        .type   add, @function
add:    lea     (%rdi,%rsi), %rax
        ret
        .size   add, . - add
        .globl  crash
        .type   crash, @function
crash:  movq    $1, (%rdi)
        ret
        .size   crash, . - crash
        .section .note.GNU-stack,"",@progbits
