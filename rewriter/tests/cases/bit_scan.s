# `bsr` of zero leaves its register alone, and only the zero flag tells. The flag depends on the
# source alone, so it is right also where the register holds nobody's value.
        .text
        .globl scans
        .type scans,@function
scans:
        push %r15
        push %r14
        push %r13
        push %r12
        push %rbp
        push %rbx
        mov %rsi,%r12
        mov %rdx,%rbp
        mov %rcx,%rbx
        mov %r8,%r14
        xor %r13d,%r13d
        bsr %rdi,%r15
        cmove %r13d,%r15d
        mov %r12,%rdi
        call known
1:
        add %r12,(%rbp)
        add %r14,(%rbx)
        add %r12,%r14
        add %rbx,%r12
        add %rbp,%r13
        dec %r13
        jne 1b
        add %r15,%rax
        pop %rbx
        pop %rbp
        pop %r12
        pop %r13
        pop %r14
        pop %r15
        ret
