# mode: full
.globl f
.type f,@function
f:
    xlat
    ret
.size f,.-f
