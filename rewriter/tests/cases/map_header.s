# A container in the frame holds a pointer to itself, and to memory of the heap once it has
# elements. A store through it does not concern the saved registers beside the container.
        .text
        .globl walks
        .type walks,@function
walks:
        push %rbp
        push %r15
        push %r14
        push %r13
        push %r12
        push %rbx
        sub $0x40,%rsp
        mov %rdi,%rbx
        mov %rsi,%r15
        mov %rdx,%r13
        mov %rcx,%rbp
        lea 8(%rsp),%r12
        mov %r12,0x18(%rsp)
        test %r15,%r15
        je 1f
        mov %rsp,%rdi
        call known
        add %r15,(%r13)
        add %r15,(%rbp)
        add %r15,8(%r13)
        add %r15,8(%rbp)
1:
        mov 0x18(%rsp),%r14
        cmp %r12,%r14
        je 3f
2:
        movq $0,0x38(%r14)
        add %r15,(%r13)
        add %rbp,%r13
        mov %r14,%rdi
        call known
        mov %rax,%r14
        cmp %r12,%rax
        jne 2b
3:
        mov %rbx,%rax
        add $0x40,%rsp
        pop %rbx
        pop %r12
        pop %r13
        pop %r14
        pop %r15
        pop %rbp
        ret
