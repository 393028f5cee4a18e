# There are no transactions in a domain: xbegin aborts, xtest reports none, xabort has no effect,
# xend faults. rdssp is a nop, and femms becomes emms.
.globl f
.type f,@function
f:  mov $-1,%eax
    xbegin 1f
    mov %edi,(%rsi)
    xend
    ret
1:  xtest
    jne 2f
    xabort $0xff
    rdsspq %rdx
    femms
    ret
2:  vzeroall
    ret
.size f,.-f
