# A receiver's function that leaves r14 alone, as of `-ffixed-r14`. Functions that the far jump
# skips may hold something else there.
        .globl  catcher
        .type   catcher,@function
catcher:
        push    %r15
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
        pop     %r15
        ret
1:      mov     $1,%eax
        jmp     2b
        .size   catcher,.-catcher
        .local  buffer
        .comm   buffer,40,8
        .section .note.GNU-stack,"",@progbits
