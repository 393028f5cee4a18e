# The cold part of `one` ends in a call that does not return, and that of `two` begins after it. The
# table of `one` has a case that is never taken, with the label of `two`'s cold part.
        .text
        .globl  one
        .type   one,@function
one:    push    %rbx
        cmp     $2,%edi
        ja      two.cold
        mov     %edi,%edi
        lea     .Ltable(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        jmp     *%rax
.La:    mov     8(%rsi),%rax
        pop     %rbx
        jmp     *%rax
.Lb:    pop     %rbx
        ret
        .size   one,.-one
        .globl  two
        .type   two,@function
two:    test    %edi,%edi
        je      two.cold
        jmp     *(%rsi)
        .size   two,.-two
        .section .text.unlikely,"ax",@progbits
        .type   one.cold,@function
one.cold:
        call    abort
        .size   one.cold,.-one.cold
        .type   two.cold,@function
two.cold:
        call    abort
        .size   two.cold,.-two.cold
        .section .rodata
        .balign 4
.Ltable:
        .long   .La-.Ltable
        .long   .Lb-.Ltable
        .long   two.cold-.Ltable
        .section .note.GNU-stack,"",@progbits
