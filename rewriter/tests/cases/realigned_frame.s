# A realigned frame. The old stack pointer is pushed where the height is not known, and comes back
# in another register.
        .globl  f
        .type   f,@function
f:      push    %r13
        lea     0x10(%rsp),%r13
        and     $-32,%rsp
        push    -8(%r13)
        push    %rbp
        mov     %rsp,%rbp
        push    %r15
        push    %r13
        push    %rbx
        sub     $0x58,%rsp
        call    g
        lea     -0x18(%rbp),%rsp
        pop     %rbx
        pop     %rdx
        pop     %r15
        pop     %rbp
        lea     -0x10(%rdx),%rsp
        pop     %r13
        ret
        .size   f,.-f
        .section .note.GNU-stack,"",@progbits
