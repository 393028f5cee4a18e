# A hand-written kernel saves r15, realigns the stack, and restores r15 after another register has
# given the stack pointer back.
        .globl  kernel
        .type   kernel,@function
kernel: sub     $64,%rsp
        mov     %rbx,(%rsp)
        mov     %rbp,8(%rsp)
        mov     %r12,16(%rsp)
        mov     %r13,24(%rsp)
        mov     %r14,32(%rsp)
        mov     %r15,40(%rsp)
        mov     72(%rsp),%r10
        mov     %rsp,%rbx
        sub     $4224,%rsp
        and     $-4096,%rsp
        lea     128(%rsp),%r13
        lea     (%rdi,%r10),%r15
        mov     (%r15),%r14
        mov     %r14,(%r13)
        mov     (%rsp),%r12
        lea     (%r12,%r14),%rbp
        mov     %rbp,%rax
        mov     %rbx,%rsp
        mov     (%rsp),%rbx
        mov     8(%rsp),%rbp
        mov     16(%rsp),%r12
        mov     24(%rsp),%r13
        mov     32(%rsp),%r14
        mov     40(%rsp),%r15
        add     $64,%rsp
        ret
        .size   kernel,.-kernel
        .section .note.GNU-stack,"",@progbits
