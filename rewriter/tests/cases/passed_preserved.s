# `mul` takes a value in r13, as hand-written functions of one object do. So neither of its callers
# may keep r15 in r13. `caller` would exchange r15 and r13, because its loop names r13 least.
# `through` would rename r15 to r13, because it does not name r13.
        .globl  caller
        .type   caller,@function
caller: push    %rbx
        push    %rbp
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        mov     %rdi,%r15
        mov     %rsi,%rbx
        mov     %rsi,%rbp
        mov     %rsi,%r12
        mov     $3,%r13
        mov     %rsi,%r14
1:      add     %rbx,%rbp
        add     %rbp,%r12
        add     %r12,%r14
        add     %r14,%rbx
        dec     %r15
        call    mul
        test    %r15,%r15
        jne     1b
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .size   caller,.-caller
        .type   through,@function
through:push    %r15
        mov     %rdi,%r15
        call    mul
        add     %r15,%rax
        pop     %r15
        ret
        .size   through,.-through
        .type   mul,@function
mul:    mov     %r14,%rax
        imul    %r13,%rax
        ret
        .size   mul,.-mul
        .globl  outer
        .type   outer,@function
outer:  push    %r13
        mov     $5,%r13
        call    through
        pop     %r13
        ret
        .size   outer,.-outer
        .section .note.GNU-stack,"",@progbits
