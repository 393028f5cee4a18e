# Landing pads follow the section's code, because flags are live across the jump. Control does not
# fall off the code, so no trap stands between them.
        .globl  f
        .type   f,@function
f:      cmp     $1,%edi
        ja      2f
        mov     %edi,%edi
        lea     table(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        test    %esi,%esi
        jmp     *%rax
1:      je      2f
        inc     %rax
2:      ret
        nop
        .size   f,.-f
        .section .rodata
        .balign 4
table:  .long   1b-table
        .long   2b-table
        .section .note.GNU-stack,"",@progbits
