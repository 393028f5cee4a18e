# A variadic call has the number of vector registers in %al, so rax does not take the target.
.globl f
.type f,@function
f:
    push %rbx
    mov %rdi,%rbx
    mov (%rdi),%rax
    call *8(%rax)
    call *8(%rbx)
    xor %eax,%eax
    call *8(%rbx)
    mov $1,%eax
    test %rbx,%rbx
    je 1f
    mov (%rbx),%rax
1:  call *8(%rbx)
    pop %rbx
    jmp *(%rax)
.size f,.-f
