# `or $-1` gives the same for any value of a register, so it reads nothing.
        .text
        .globl finds
        .type finds,@function
finds:
        push %r15
        push %r14
        push %r13
        push %r12
        push %rbp
        push %rbx
        mov %rdi,%r15
        mov %rsi,%r12
        mov %rdx,%rbp
        mov %rcx,%rbx
        or $-1,%r13d
        call known
        mov %rax,%r14
        test %rax,%rax
        je 2f
        xor %r14d,%r14d
        xor %r13d,%r13d
1:
        mov (%r15,%r14),%dl
        mov %dl,(%r12)
        mov %dl,(%rbp)
        add (%rbx),%r13d
        inc %r14
        cmp $7,%r14d
        jne 1b
2:
        mov %r13d,%eax
        pop %rbx
        pop %rbp
        pop %r12
        pop %r13
        pop %r14
        pop %r15
        ret
