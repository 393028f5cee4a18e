# A switch table of -mcmodel=large.
        .globl  f
        .type   f,@function
f:      lea     table(%rip),%rax
        mov     (%rax,%rdi,8),%rcx
        add     %rcx,%rax
        jmp     *%rax
1:      ret
        .size   f,.-f
        .section .rodata
table:  .quad   1b-table
        .section .note.GNU-stack,"",@progbits
