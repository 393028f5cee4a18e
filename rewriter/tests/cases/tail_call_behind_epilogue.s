# A jump after its function's epilogue is a tail call, even if the register holds a sum on another
# path. A value that another function leaves in a register, across a call that does not return, is
# no target.
        .globl  f
        .type   f,@function
f:      push    %rbx
        mov     %rdi,%rbx
        lea     (%rsi,%rdx,8),%rax
        test    %rbx,%rbx
        je      1f
        mov     8(%rbx),%rax
1:      pop     %rbx
        jmp     *%rax
        .size   f,.-f
        .globl  g
        .type   g,@function
g:      sub     $8,%rsp
        add     %rsi,%rdx
        call    abort
        .size   g,.-g
        nop
        .globl  h
        .type   h,@function
h:      test    %rdi,%rdi
        je      2f
        mov     %rdi,%rdx
2:      jmp     *%rdx
        .size   h,.-h
        .section .note.GNU-stack,"",@progbits
