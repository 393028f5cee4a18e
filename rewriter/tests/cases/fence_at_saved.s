# A fence that names the word of the frame where a register is saved, and changes nothing there. The
# caller has r15 in a slot of its frame.
        .globl  caller
        .type   caller,@function
caller: push    %r15
        push    %r14
        push    %r13
        push    %r12
        push    %rbp
        push    %rbx
        sub     $24,%rsp
        mov     %rdi,%r14
        call    fenced
        mov     %rax,%rbx
        mov     %rax,%rbp
        mov     %rax,%r12
        mov     %rax,%r13
        mov     %rax,%r15
1:      add     %rbx,%rbp
        add     %rbp,%rbx
        add     %r12,%r13
        add     %r13,(%r15)
        dec     %r14
        jne     1b
        mov     %rbx,%rdi
        call    g
        add     $24,%rsp
        pop     %rbx
        pop     %rbp
        pop     %r12
        pop     %r13
        pop     %r14
        pop     %r15
        ret
        .size   caller,.-caller
        .type   fenced,@function
fenced: push    %r14
        mov     %rdi,%r14
        lock orq $0,(%rsp)
        call    g
        add     %r14,%rax
        pop     %r14
        ret
        .size   fenced,.-fenced
        .section .note.GNU-stack,"",@progbits
