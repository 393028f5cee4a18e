# mode: full
# Reads of the own return address: with a frame, without one, pushed, where registers and flags are
# live, and of a part of it.
        .globl  plain, framed, busy, part, pushed
        .type   plain,@function
plain:  mov     (%rsp),%rax
        ret
        .size   plain,.-plain
        .type   framed,@function
framed: push    %rbp
        mov     %rsp,%rbp
        push    %rbx
        and     $-32,%rsp
        mov     8(%rbp),%rsi
        call    note
        mov     -8(%rbp),%rbx
        leave
        ret
        .size   framed,.-framed
        .type   busy,@function
busy:   sub     $24,%rsp
        cmp     %rdi,%rsi
        mov     24(%rsp),%rdx
        lea     (%rax,%r11),%rax
        setb    %cl
        add     %r10,%rdx
        lea     (%rdx,%rdi),%rdi
        call    note
        add     $24,%rsp
        ret
        .size   busy,.-busy
        .type   part,@function
part:   mov     %edi,-4(%rsp)
        mov     -4(%rsp),%rsi
        mov     %esi,%eax
        ret
        .size   part,.-part
        .type   pushed,@function
pushed: push    (%rsp)
        mov     (%rsp),%rdi
        movq    8(%rsp),%xmm0
        call    note
        pop     %rax
        ret
        .size   pushed,.-pushed
        .section .note.GNU-stack,"",@progbits
