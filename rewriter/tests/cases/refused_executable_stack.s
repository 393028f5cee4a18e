# A call of a nested function whose address is taken goes through code on the stack.
        .globl  f
        .type   f,@function
f:      ret
        .section .note.GNU-stack,"x",@progbits
