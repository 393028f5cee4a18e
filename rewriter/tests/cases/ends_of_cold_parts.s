# The cold parts of `far` and `near` lie side by side. A call that does not return ends each, so the
# jump of `far` leads to no label of `near`, which finds a value in r11.
        .globl  far, near
        .type   far,@function
far:    mov     (%rdi),%r11
        test    %r11,%r11
        je      far.cold
        mov     (%r11),%eax
        cmpl    $9,words(,%rcx,8)
        je      1f
        inc     %eax
1:      jmp     *%rax
        .size   far,.-far
        .type   near,@function
near:   cmp     $1,%edi
        ja      near.cold
        mov     8(%rsi),%r11
        mov     %edi,%edi
        lea     .Ltable(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        jmp     *%rax
.La:    mov     (%r11),%eax
        ret
.Lb:    mov     8(%r11),%eax
        ret
        .size   near,.-near
        .section .text.unlikely,"ax",@progbits
        .type   far.cold,@function
far.cold:
        call    abort
        .size   far.cold,.-far.cold
        .type   near.cold,@function
near.cold:
        call    abort
        .size   near.cold,.-near.cold
        .section .rodata
        .balign 4
.Ltable:
        .long   .La-.Ltable
        .long   .Lb-.Ltable
        .bss
words:  .skip   64
        .section .note.GNU-stack,"",@progbits
