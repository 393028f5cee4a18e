# Free Pascal fills the end of each section with zeros, also with an odd number of them.
        .section .text.odd,"ax",@progbits
        .globl  odd
        .type   odd,@function
odd:    mov     $0,%eax
        ret
        .size   odd,.-odd
        .fill   3,1,0
        .section .text.stops,"ax",@progbits
        .globl  stops
        .type   stops,@function
stops:  sub     $8,%rsp
        call    abort
        .size   stops,.-stops
        .fill   7,1,0
# The zeros of a branch and of an immediate are no padding.
        .section .text.last,"ax",@progbits
        .globl  last
        .type   last,@function
last:   jmp     odd
        .size   last,.-last
