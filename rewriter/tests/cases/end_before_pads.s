# The last call is not to return, and landing pads follow the section's code, because flags are live
# across the jump. A trap stands between them.
        .globl  f
        .type   f,@function
f:      sub     $8,%rsp
        cmp     $1,%edi
        ja      3f
        mov     %edi,%edi
        lea     table(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        test    %esi,%esi
        jmp     *%rax
1:      je      3f
2:      add     $8,%rsp
        ret
3:      call    never
        nop
        .size   f,.-f
        .section .rodata
        .balign 4
table:  .long   1b-table
        .long   2b-table
        .section .note.GNU-stack,"",@progbits
