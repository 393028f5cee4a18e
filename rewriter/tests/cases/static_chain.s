# A tail call through a pointer passes r10 on, which is a nested function's static chain.
        .text
        .globl passes_on
        .type passes_on,@function
passes_on:
        push %r15
        push %r14
        push %r13
        push %r12
        push %rbp
        push %rbx
        mov 56(%rsp),%r15
        mov 64(%rsp),%r14
        mov 72(%rsp),%r13
        mov 80(%rsp),%r12
        mov 88(%rsp),%rbp
        mov 96(%rsp),%rbx
        mov 104(%rsp),%r11
        mov (%rdi,%rbx,8),%rax
        mov %r15,64(%rsp)
        mov %r14,56(%rsp)
        mov %r13,80(%rsp)
        mov %r12,72(%rsp)
        mov %rbp,88(%rsp)
        mov %r11,96(%rsp)
        pop %rbx
        pop %rbp
        pop %r12
        pop %r13
        pop %r14
        pop %r15
        jmp *%rax
