# A weak function without code is behind the section. If the linker takes another definition, that
# one would return to the word on the stack.
        .globl  deep
        .type   deep,@function
deep:   push    %rbx
        call    before
        test    %eax,%eax
        je      other
        pop     %rbx
        ret
        .size   deep,.-deep
        .weak   other
        .type   other,@function
other:
        .size   other,.-other
        .section .note.GNU-stack,"",@progbits
