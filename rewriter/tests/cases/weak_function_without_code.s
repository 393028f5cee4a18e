# Functions without code are behind the section. Of the weak one the linker may take another
# definition, so a jump there is like one to any function. A jump to the other one comes to a trap,
# whatever is on the stack.
        .globl  tail
        .type   tail,@function
tail:   sub     $24,%rsp
        call    before
        add     $24,%rsp
        jmp     other
        .size   tail,.-tail
        .globl  deep
        .type   deep,@function
deep:   push    %rbx
        call    before
        test    %eax,%eax
        je      strong
        pop     %rbx
        ret
        .size   deep,.-deep
        .weak   other
        .type   other,@function
other:
        .size   other,.-other
        .globl  strong
        .type   strong,@function
strong:
        .size   strong,.-strong
        .section .note.GNU-stack,"",@progbits
