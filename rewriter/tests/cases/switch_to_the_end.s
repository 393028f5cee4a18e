# The second case never occurs. clang gives it the label at the function's end, where padding is.
        .globl  pick
        .type   pick,@function
pick:   sub     $24,%rsp
        cmp     $2,%edi
        ja      .Lnone
        mov     %edi,%eax
        lea     table(%rip),%rcx
        movslq  (%rcx,%rax,4),%rax
        add     %rcx,%rax
        jmp     *%rax
.La:    add     $24,%rsp
        mov     $5,%eax
        ret
.Lnone: call    abort
.Lend:
        .size   pick,.-pick
        .p2align 4,0x90
        .globl  other
        .type   other,@function
other:  lea     1(%rdi),%eax
        ret
        .size   other,.-other
        .section .rodata
        .balign 4
table:  .long   .La-table
        .long   .Lend-table
        .long   .Lnone-table
