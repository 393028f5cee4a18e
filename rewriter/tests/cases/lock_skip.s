# glibc skips the lock prefix if there is only one thread.
.globl f
.type f,@function
f:  cmpl $0,%fs:0x18
    je 1f
    .byte 0xf0
1:  cmpxchg %rcx,(%rdi)
    ret
.size f,.-f
