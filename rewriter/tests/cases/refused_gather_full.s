# mode: full
.globl f
.type f,@function
f:
    vpgatherdd %ymm1,(%rdi,%ymm2,4),%ymm0
    ret
.size f,.-f
