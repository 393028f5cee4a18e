# Branches that exist only in a short form, with targets that moved out of reach.
.globl f
.type f,@function
f:
    jrcxz 1f
    .rept 13
    movq $1,8(%rdi,%rsi,8)
    .endr
1:  jrcxz 1b
    loop 1b
    ret
.size f,.-f
