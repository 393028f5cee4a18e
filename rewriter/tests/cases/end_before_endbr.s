# A call at a function's end that does not return, with something on the stack. The next function
# begins with an instruction that does nothing.
        .globl  f
        .type   f,@function
f:      endbr64
        push    %rbx
        mov     %edi,%ebx
        call    outside@PLT
        mov     %ebx,%edi
        call    die@PLT
        .size   f,.-f
        .p2align 4
        .globl  g
        .type   g,@function
g:      endbr64
        lea     1(%rdi),%eax
        ret
        .size   g,.-g
        .section .note.GNU-stack,"",@progbits
