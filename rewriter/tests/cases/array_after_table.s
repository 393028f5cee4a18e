# An array that counts from 1, as Fortran's do, directly behind a switch table. The address that its
# accesses use is that of the table's last entry.
        .text
        .globl f
        .type f,@function
f:      cmp $2,%edi
        ja 4f
        lea table(%rip),%rcx
        mov %edi,%edi
        movslq (%rcx,%rdi,4),%rax
        add %rcx,%rax
        jmp *%rax
1:      mov $1,%eax
        ret
2:      mov $2,%eax
        ret
3:      lea numbers-4(%rip),%rdx
        mov %esi,%esi
        mov (%rdx,%rsi,4),%eax
        ret
4:      xor %eax,%eax
        ret
        .size f,.-f
        .section .rodata
        .align 4
table:  .long 1b-table
        .long 2b-table
        .long 3b-table
numbers: .long 10, 20, 30
