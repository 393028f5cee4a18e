# Addresses that no window has.
.globl f
.type f,@function
f:  movabs %eax,0x123456789a
    movabs 0x80000000,%rax
    ret
.size f,.-f
