# The stack pointer comes back from memory of a realigned stack, so the function returns on its own
# stack.
        .globl  by_copy
        .type   by_copy,@function
by_copy:
        mov     %rsp,%rax
        push    %rbp
        sub     $0x220,%rsp
        and     $-1024,%rsp
        mov     %rdi,0x40(%rsp)
        mov     %rax,0x58(%rsp)
        mov     %rdi,0x58(%rdx)
        lea     (%rsp),%rbp
        mov     0x58(%rbp),%rsi
        mov     -8(%rsi),%rbp
        lea     (%rsi),%rsp
        ret
        .size   by_copy,.-by_copy
        .section .note.GNU-stack,"",@progbits
