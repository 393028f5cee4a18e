# Functions that read a preserved register on a path where they did not set it. Compilers leave
# such reads on paths that they know to be impossible. The reads find the caller's values.
        .text
        .globl takes_r14
        .type takes_r14,@function
takes_r14:
        push %r15
        push %r14
        push %rbx
        mov %rdi,%r15
        mov %rsi,%rbx
        test %esi,%esi
        je 1f
        mov %rdx,%r14
        call known
        add %r14,%rax
        add %r15,%rax
        add %rbx,%rax
        jmp 2f
1:      mov %r14,%rdi
        call known
2:      pop %rbx
        pop %r14
        pop %r15
        ret

        # r14 may not take r15's place here, although it is free.
        .globl calls_r14
        .type calls_r14,@function
calls_r14:
        push %r15
        push %rbx
        push %rbp
        push %r12
        mov %rdi,%r15
        mov %rdx,%rbx
        mov %rcx,%rbp
        mov %r8,%r12
        call takes_r14
        add %r15,%rax
        add %rbx,%rax
        add %rbp,%rax
        add %r12,%rax
        pop %r12
        pop %rbp
        pop %rbx
        pop %r15
        ret

        .globl takes_r15
        .type takes_r15,@function
takes_r15:
        push %r15
        test %edi,%edi
        je 1f
        mov %rsi,%r15
        call known
        add %r15,%rax
        pop %r15
        ret
1:      mov %r15,%rdi
        call known
        pop %r15
        ret

        # r15 stays in its home, where the callee looks for it.
        .globl calls_r15
        .type calls_r15,@function
calls_r15:
        push %r15
        mov %rdi,%r15
        call takes_r15
        add %r15,%rax
        pop %r15
        ret
