# No transactions in a domain: xbegin aborts, xtest says no, xabort does nothing, xend faults. rdssp
# is a nop, femms is emms.
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
