# No visible code reads the bytes, so they could be code.
.globl f
.type f,@function
f:  lea 1f(%rip),%rax
    ret
1:  .byte 6
.size f,.-f
