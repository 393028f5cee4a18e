# r15 lives in memory, and no register is free. An instruction that loads a whole register, or
# computes an address in it, takes it for r15 first. One that reads the register, loads a part of
# it, or loads a vector needs another one.
        .globl  f
        .type   f,@function
f:      push    %r15
        push    %r14
        push    %r13
        push    %r12
        push    %rbp
        push    %rbx
        mov     %rdi,%r15
        mov     (%r15),%rbx
        mov     8(%r15,%rbx,8),%rbp
        movzbl  16(%r15),%r12d
        movslq  (%rbx,%r15,4),%r13
        lea     1(%r15,%rbp),%r14
        mov     (%r15,%rax),%eax
        mov     2(%r15),%cl
        movups  (%r15),%xmm0
        mov     %fs:(%r15),%rdi
1:      add     %rbx,(%rbx)             # loops use the other registers more
2:      add     %rbp,(%rbp)
        add     %r12,(%r12)
        add     %r13,(%r13)
        add     %r14,(%r14)
        add     %rbx,(%rbx)
        jne     2b
        jne     1b
        add     %rax,(%rdx)
        add     %rcx,(%rsi)
        add     %rdi,(%r8)
        add     %r9,(%r10)
        add     %r11,(%rbx)
        pop     %rbx
        pop     %rbp
        pop     %r12
        pop     %r13
        pop     %r14
        pop     %r15
        ret
        .size   f,.-f
        .section .note.GNU-stack,"",@progbits
