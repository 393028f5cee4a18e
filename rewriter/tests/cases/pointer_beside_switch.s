# A switch and a tail call through a pointer in one function without a frame. A case returns with a
# result that was computed before the switch. The pointer is loaded, so it leads to no case, and its
# register may be overwritten.
    .text
    .globl f
    .type f,@function
f:
    mov $479, %eax
    cmp $3, %rdi
    ja 9f
    lea table(%rip), %r8
    movslq (%r8,%rdi,4), %rdi
    add %r8, %rdi
    jmp *%rdi
1:
    ret
2:
    mov callee(%rip), %rax
    mov %ecx, %edx
    jmp *%rax
3:
    mov $3, %eax
    ret
9:
    imul %rsi, %rdi
    mov %rdi, %rax
    ret
    .size f, .-f

    .section .rodata
    .p2align 2
table:
    .long 1b-table
    .long 2b-table
    .long 1b-table
    .long 3b-table

    .data
callee:
    .quad 0
    .section .note.GNU-stack,"",@progbits
