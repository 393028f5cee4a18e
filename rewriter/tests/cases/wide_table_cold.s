# A table of pointers that only a jump reads. It leads to the function's unlikely part, which is no
# function.
        .globl  f
        .type   f,@function
f:      push    %rbx
        mov     %edi,%eax
        cmp     $3,%eax
        ja      2f
        jmp     *table(,%rax,8)
1:      call    g
2:      pop     %rbx
        ret
        .size   f,.-f
        .section .text.unlikely,"ax",@progbits
        .type   f.cold,@function
f.cold: mov     $1,%edi
        call    g
        jmp     2b
        .size   f.cold,.-f.cold
        .section .rodata
        .align  8
table:  .quad   1b,2b,f.cold,1b
        .section .note.GNU-stack,"",@progbits
