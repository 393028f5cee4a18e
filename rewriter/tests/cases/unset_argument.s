# A register that is set on one path only, and then pushed as an argument. It may not be the one
# that lives in memory in r15's place: a slot of the frame would not hold the caller's value.
        .text
        .globl pushes_r13
        .type pushes_r13,@function
pushes_r13:
        push %rbp
        push %r15
        push %r14
        push %r13
        push %r12
        push %rbx
        sub $8,%rsp
        mov %rdi,%r15
        mov %rsi,%rbx
        mov %rdx,%r14
        mov %rcx,%r12
        mov %r8,%rbp
1:      add (%r15),%r14
        add %r15,%rbp
        add %rbx,%r12
        add $8,%r15
        cmp %rbx,%r15
        jne 1b
        test %r14,%r14
        je 2f
        mov 8(%rbx),%r13
        mov %r13,%rdi
        call known
2:      push %r13
        push $0
        mov %r12,%rdi
        mov %rbp,%rsi
        call known
        add $24,%rsp
        pop %rbx
        pop %r12
        pop %r13
        pop %r14
        pop %r15
        pop %rbp
        ret
        .size pushes_r13,.-pushes_r13
