# Code and a switch table of -mcmodel=large.
        .globl  f
        .type   f,@function
f:      movabs  $x@GOTOFF,%rax
        ret
        .size   f,.-f
        .section .rodata
table:  .quad   f-table
        .section .note.GNU-stack,"",@progbits
