# A table at the section's start. Another section names it by the section's symbol.
table: .long 0x06060606, 7
.globl f
.type f,@function
f:  mov table(%rip),%eax
    ret
.size f,.-f
.data
.quad table + 4
