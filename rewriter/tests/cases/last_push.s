# mode: full
# r15 moves before the last push where nothing else moves the stack pointer until r15 must be there.
# So this store needs no displacement, and neither does the first pop.
        .globl  before_a_call
        .type   before_a_call,@function
before_a_call:
        push    %rbx
        push    %rbp
        mov     8(%rsp),%rbx            # the first push
        push    %r12
        mov     %rdi,%r12
        call    work
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .size   before_a_call,.-before_a_call
        .globl  before_a_frame
        .type   before_a_frame,@function
before_a_frame:
        push    %rbx
        sub     $16,%rsp
        call    work
        add     $16,%rsp
        pop     %rbx
        ret
        .size   before_a_frame,.-before_a_frame
        .globl  no_call
        .type   no_call,@function
no_call:
        push    %rbx
        mov     %rdi,%rbx
        lea     (%rbx,%rbx),%rax
        pop     %rbx
        ret
        .size   no_call,.-no_call
        .globl  before_a_label
        .type   before_a_label,@function
before_a_label:
        push    %rbx
1:      dec     %edi
        jne     1b
        pop     %rbx
        ret
        .size   before_a_label,.-before_a_label
        .section .note.GNU-stack,"",@progbits
