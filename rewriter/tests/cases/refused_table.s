# Nothing names the table.
.globl f
.type f,@function
f:  ret
1:  ret
.size f,.-f
.section .rodata
    .long 1b-.
