# Functions save registers on the control stack.
        .macro  function name
        .globl  \name
        .type   \name,@function
\name:
        .endm

        # Three words: with the return address' place they are a multiple of 16. No frame is left.
        function odd
        push    %r12
        push    %rbp
        push    %rbx
        mov     %edi,%ebx
1:      call    other
        add     %rax,%r12
        dec     %ebx
        jne     1b
        mov     %r12,%rax
        pop     %rbx
        pop     %rbp
        pop     %r12
        ret

        # Two words and locals.
        function even
        push    %rbp
        push    %rbx
        sub     $24,%rsp
        mov     %rdi,8(%rsp)
        lea     8(%rsp),%rdi
        mov     %rsp,%rsi
        call    other
        mov     8(%rsp),%rax
        add     $24,%rsp
        pop     %rbx
        pop     %rbp
        ret

        # One word and locals, among them a register that is saved by a move. It lies elsewhere
        # relative to the frame's address.
        function moved
        .cfi_startproc
        push    %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx,0
        sub     $16,%rsp
        .cfi_adjust_cfa_offset 16
        mov     %r12,8(%rsp)
        .cfi_rel_offset %r12,8
        mov     %rdi,%rbx
        mov     %rsi,%r12
        call    other
        add     %rbx,%rax
        add     %r12,%rax
        mov     8(%rsp),%r12
        add     $16,%rsp
        .cfi_adjust_cfa_offset -16
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc

        # A leaf with a red zone, and a way out before the pushes.
        function leaf
        test    %edi,%edi
        je      2f
        push    %rbx
        mov     %rdi,-8(%rsp)
        mov     -8(%rsp),%rbx
        lea     (%rbx,%rbx),%rax
        pop     %rbx
2:      ret

        # Arguments on the stack of a callee.
        function arguments
        push    %rbp
        push    %rbx
        sub     $8,%rsp
        push    $7
        push    %rdi
        call    other
        add     $16,%rsp
        pop     %rdx
        pop     %rbx
        pop     %rbp
        ret

        # Frames that hold nothing else are left out.
        function aligns
        push    %rbp
        push    %rbx
        sub     $8,%rsp
        mov     %rdi,%rbx
        mov     %rsi,%rbp
1:      call    other
        test    %eax,%eax
        jne     1b
        add     $8,%rsp
        pop     %rbx
        pop     %rbp
        ret
        function wraps
        sub     $8,%rsp
        call    other
        add     $8,%rsp
        ret
        function large
        push    %rbx
        test    %edi,%edi
        je      2f
        lea     -32(%rsp),%rsp
        call    other
        lea     32(%rsp),%rsp
2:      pop     %rbx
        ret

        # A call that does not return, with words on the stack, and then another function.
        function ends
        push    %rbx
        test    %edi,%edi
        je      3f
        pop     %rbx
        jmp     other
3:      call    abort

        # r15 lives in its word of the frame, above three saved ones.
        function home
        push    %r15
        push    %r14
        push    %r13
        push    %r12
        push    %rbp
        push    %rbx
        sub     $8,%rsp
        mov     %rdi,%r15
        mov     %rdi,%r14
        mov     %rdi,%r13
        mov     %rdi,%r12
        mov     %rdi,%rbp
        mov     %rdi,%rbx
4:      call    other
        add     %r15,%r14
        add     %r14,%r13
        add     %r13,%r12
        add     %r12,%rbp
        add     %rbp,%rbx
        add     %rbx,%r14
        test    %eax,%eax
        jne     4b
        lea     (%r14,%r13),%rax
        add     $8,%rsp
        pop     %rbx
        pop     %rbp
        pop     %r12
        pop     %r13
        pop     %r14
        pop     %r15
        ret

        # A loop around an instruction that faults: nothing reaches the jump back.
        function crashes
        push    %rbx
        test    %edi,%edi
        jne     7f
        pop     %rbx
        ret
7:      hlt
        jmp     7b

        # What follows such an instruction joins what is reached.
        function joins
        push    %rbx
        test    %edi,%edi
        jne     9f
        xend
        test    %esi,%esi
        jne     other
9:      pop     %rbx
        ret

        # A call that does not return, at the section's end.
        function last
        push    %rbx
        test    %edi,%edi
        je      5f
        pop     %rbx
        jmp     other
5:      call    abort
        .section .note.GNU-stack,"",@progbits
