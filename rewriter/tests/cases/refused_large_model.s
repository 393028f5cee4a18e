# Code and a switch table of -mcmodel=large.
        .globl  f
        .type   f,@function
f:      lea     f(%rip),%rbx
        movabs  $_GLOBAL_OFFSET_TABLE_-f,%r11
        add     %r11,%rbx
        movabs  $x@GOTOFF,%rax
        ret
        .size   f,.-f
        .section .rodata
table:  .quad   f-table
        .section .note.GNU-stack,"",@progbits
