# Plain moves of vectors for integers and for double precision get the shorter opcodes of those for
# single precision. So do the two ways to clear a register, but not other operations.
        .text
        .globl  moves
        .type   moves,@function
moves:
        movdqa  %xmm1,%xmm0
        movdqa  (%rdi),%xmm2
        movdqa  %xmm2,16(%rdi)
        movdqu  (%rdi,%rsi),%xmm9
        movdqu  %xmm9,1(%rdi)
        movapd  %xmm3,%xmm12
        movapd  value(%rip),%xmm3
        movapd  %xmm3,(%rsi)
        movupd  8(%rsi),%xmm4
        movupd  %xmm4,8(%rdi)
        movlpd  (%rdi),%xmm5
        movhpd  8(%rdi),%xmm5
        movlpd  %xmm5,(%rsi)
        movhpd  %xmm5,8(%rsi)
        pxor    %xmm6,%xmm6
        xorpd   %xmm13,%xmm13
        pxor    %xmm6,%xmm7
        pxor    (%rdi),%xmm6
        xorpd   %xmm7,%xmm6
        movq    %xmm0,(%rdi)
        vmovdqa %xmm1,%xmm0
        ret
        .size   moves,.-moves
        .section .rodata
        .p2align 4
value:  .zero   16
