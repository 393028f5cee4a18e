# The stack pointer comes back from memory with an index, and from a register that a called function
# preserves.
        .globl  by_index, through_call
        .type   by_index,@function
by_index:
        mov     %rsp,%rax
        push    %rbx
        lea     -16(%rsp,%r9,8),%r10
        neg     %r9
        and     $-1024,%r10
        mov     %r10,%rsp
        mov     %rax,8(%rsp,%r9,8)
        mov     %rdi,16(%rdx)
        mov     8(%rsp,%r9,8),%rsi
        mov     -8(%rsi),%rbx
        lea     (%rsi),%rsp
        rep ret
        .size   by_index,.-by_index
        .type   through_call,@function
through_call:
        lea     (%rsp),%r11
        sub     $0x80,%rsp
        and     $-16,%rsp
        call    inner
        call    later
        lea     (%r11),%rsp
        ret
        .size   through_call,.-through_call
        .type   inner,@function
inner:  mov     $3,%eax
later:  dec     %eax
        jne     later
        ret
        .size   inner,.-inner
        .section .note.GNU-stack,"",@progbits
