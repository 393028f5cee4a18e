# A switch entry leads into the .cold part. The part is no function, and has the stack height of the
# others.
.globl f
.type f,@function
f:
    push %rbx
    lea .Ltable(%rip),%rdx
    movslq (%rdx,%rdi,4),%rax
    add %rdx,%rax
    jmp *%rax
1:  pop %rbx
    ret
.size f,.-f
.section .text.unlikely,"ax"
.type f.cold,@function
f.cold:
2:  call abort_like
.size f.cold,.-f.cold
.section .rodata
.align 4
.Ltable:
    .long 1b-.Ltable
    .long 2b-.Ltable
