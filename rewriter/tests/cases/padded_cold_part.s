# gcc pads a cold part whose first code is a landing pad. Nothing leads to the padding, so it
# changes nothing about the stack of the code after it.
        .globl  f
        .type   f,@function
f:      push    %rbp
        mov     %rsp,%rbp
        push    %rbx
        sub     $24,%rsp
        test    %edi,%edi
        je      2f
1:      mov     %rsp,%rbx
        mov     %rax,(%rbx)
        lea     -8(%rbp),%rsp
        pop     %rbx
        pop     %rbp
        ret
        .size   f,.-f
        .section .text.unlikely,"ax",@progbits
        .type   f.cold,@function
f.cold: nop
2:      mov     $5,%eax
        jmp     1b
        .size   f.cold,.-f.cold
        .section .note.GNU-stack,"",@progbits
