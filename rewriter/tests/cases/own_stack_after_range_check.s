# A word of the frame holds a stack pointer, and on the way to a check that never returns a length,
# as GNAT writes it.
        .globl  checked
        .type   checked,@function
checked:
        push    %rbp
        mov     %rsp,%rbp
        sub     $48,%rsp
        mov     %rsp,-32(%rbp)
        sub     %rdi,%rsp
        mov     %rsp,%rdi
        call    fill
        cmp     $9,%rax
        jle     1f
        mov     %rax,-32(%rbp)
        call    __gnat_rcheck_CE_Overflow_Check
1:      mov     -32(%rbp),%rsp
        add     $48,%rsp
        pop     %rbp
        ret
        .size   checked,.-checked
        .section .note.GNU-stack,"",@progbits
