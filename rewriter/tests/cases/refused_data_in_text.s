.globl f
.type f,@function
f:  mov table(%rip),%eax
    ret
table: .long 0x90909090
.size f,.-f
