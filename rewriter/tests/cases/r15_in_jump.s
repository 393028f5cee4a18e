# r15 has no register of its own and is part of the address of an indirect jump or call. The
# register that it is loaded into is not the other part of the address, even if that one dies there.
        .globl  jump
        .type   jump,@function
jump:   push    %rbx
        push    %rbp
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        mov     %rdi,%rbx
        mov     %rsi,%rbp
        mov     %rdx,%r12
        mov     %rcx,%r13
        mov     %r8,%r14
        .rept   8
        add     %rbx,%rbp
        add     %rbp,%r12
        add     %r12,%r13
        add     %r13,%r14
        add     %r14,%rbx
        .endr
        mov     %rdi,%rax
        and     $1,%eax
        lea     .Ltable(%rip),%r15
        jmp     *(%r15,%rax,8)
.La:    mov     (%rsi),%rax
        mov     %rbx,%r11
        call    *8(%r15,%r11,8)
.Lb:    add     %r13,%r14
        lea     (%rbx,%r14),%rax
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .size   jump,.-jump
        .section .data.rel.ro,"aw",@progbits
        .balign 8
.Ltable:
        .quad   .La, .Lb
        .section .note.GNU-stack,"",@progbits
