# The cold part of `pick` is empty, and nothing else is in its section. A branch of `pick` that is
# never taken leads there, with something on the stack. So does one of `other`, with another stack.
        .globl  pick
        .type   pick,@function
pick:   push    %rbx
        mov     %edi,%ebx
        call    before
        cmp     $1,%ebx
        ja      pick.cold
        lea     table(%rip),%rcx
        movslq  (%rcx,%rbx,4),%rax
        add     %rcx,%rax
        jmp     *%rax
.La:    mov     $5,%eax
        pop     %rbx
        ret
.Lb:    mov     $6,%eax
        pop     %rbx
        ret
        .size   pick,.-pick
        .globl  other
        .type   other,@function
other:  sub     $24,%rsp
        call    before
        test    %eax,%eax
        je      pick.cold
        add     $24,%rsp
        ret
        .size   other,.-other
        .section .text.unlikely,"ax",@progbits
        .type   pick.cold,@function
pick.cold:
        .size   pick.cold,.-pick.cold
        .section .rodata
        .balign 4
table:  .long   .La-table
        .long   .Lb-table
        .section .note.GNU-stack,"",@progbits
