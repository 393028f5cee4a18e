# Code whose end is not reached (`__builtin_unreachable`) falls off its section. With a budget a
# trap stands there, and a charge may stand before code that leaves the flags alone.
        .section .text.falls,"ax",@progbits
        .globl  falls
        .type   falls,@function
falls:  test    %edi,%edi
        je      1f
        ret
1:      mov     $0,%eax
        .size   falls,.-falls
        .section .text.hot,"ax",@progbits
        .globl  hot
        .type   hot,@function
hot:    cmpl    $0,(%rdi)
        je      hot.cold
        mov     $1,%eax
        ret
        .size   hot,.-hot
        .section .text.unlikely,"ax",@progbits
        .type   hot.cold,@function
hot.cold:
        movl    $5,(%rdi)
        .size   hot.cold,.-hot.cold
