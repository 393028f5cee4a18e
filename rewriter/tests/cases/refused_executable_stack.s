# A nested function whose address is taken is called through code on the stack.
        .globl  f
        .type   f,@function
f:      ret
        .section .note.GNU-stack,"x",@progbits
