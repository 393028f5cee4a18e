# __builtin_longjmp: the receiver's function saves the depth of the control stack, and the
# receiver's landing pad cuts the stack to it.
        .globl  catcher, thrower
        .type   catcher,@function
catcher:
        push    %r15
        push    %r14
        push    %r13
        push    %r12
        push    %rbx
        push    %rbp
        mov     %rbp,buffer(%rip)
        lea     1f(%rip),%rax
        mov     %rax,buffer+8(%rip)
        mov     %rsp,buffer+16(%rip)
        call    thrower
        xor     %eax,%eax
2:      pop     %rbp
        pop     %rbx
        pop     %r12
        pop     %r13
        pop     %r14
        pop     %r15
        ret
1:      mov     $1,%eax
        jmp     2b
        .size   catcher,.-catcher
        .type   thrower,@function
thrower:
        mov     buffer(%rip),%rcx
        mov     buffer+8(%rip),%rax
        mov     buffer+16(%rip),%rsp
        mov     %rcx,%rbp
        jmp     *%rax
        .size   thrower,.-thrower
        .local  buffer
        .comm   buffer,40,8
        .section .note.GNU-stack,"",@progbits
