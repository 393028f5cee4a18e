# clang computes the target of a loop's switch once, before the loop, and keeps it in the frame.
# Both jumps lead to the entries of the table.
        .globl  repeat
        .type   repeat,@function
repeat: push    %rbx
        sub     $16,%rsp
        cmp     $2,%edi
        ja      .Lend
        mov     %edi,%eax
        lea     table(%rip),%rcx
        movslq  (%rcx,%rax,4),%rax
        add     %rcx,%rax
        mov     %rax,8(%rsp)
        xor     %ecx,%ecx
        mov     %rdi,%rbx
        jmp     *8(%rsp)
.La:    inc     %esi
        jmp     .Lnext
.Lb:    add     %ecx,%esi
        jmp     .Lnext
.Lc:    xor     $5,%esi
.Lnext: inc     %rcx
        cmp     %rdx,%rcx
        je      .Lend
        jmp     *8(%rsp)
.Lend:  mov     %esi,%eax
        add     $16,%rsp
        pop     %rbx
        ret
        .size   repeat,.-repeat
# A function pointer in the frame is no switch: the jump is a tail call.
        .globl  tail
        .type   tail,@function
tail:   mov     %rdi,-8(%rsp)
        mov     %rsi,%rdi
        jmp     *-8(%rsp)
        .size   tail,.-tail
        .section .rodata
        .balign 4
table:  .long   .La-table
        .long   .Lb-table
        .long   .Lc-table
