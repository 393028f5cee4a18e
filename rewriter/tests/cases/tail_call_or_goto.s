# A tail call through a register and a computed goto leave with different stacks.
.globl f
.type f,@function
f:
    push %rbx
    lea table(%rip),%rdx
    mov (%rdx,%rdi,8),%rax
    jmp *%rax
1:  mov (%rsi),%rcx
    pop %rbx
    jmp *%rcx
2:  pop %rbx
    ret
.size f,.-f
.section .data.rel.ro.local,"aw"
.align 8
table:
    .quad 1b
    .quad 2b
