# Frame slots of r15: saved by mov, with a path that does not save, with a frame pointer and a
# computed stack pointer, and with operands of every shape.
.globl f
.type f,@function
f:
    sub $72,%rsp
    test %rdi,%rdi
    je 2f
    mov %r15,32(%rsp)
    mov %rbx,24(%rsp)
    mov %rbp,16(%rsp)
    mov %r12,8(%rsp)
    mov %r13,40(%rsp)
    mov %r14,48(%rsp)
    mov %rdi,%rbx
    mov %rdi,%rbp
    mov %rdi,%r12
    mov %rdi,%r13
    mov %rdi,%r14
1:  add %rbx,%rbp
    add %rbp,%rbx
    add %r12,%r13
    dec %r14
    jne 1b
    sbb %r15d,%r15d
    mov %rdi,%r15
    test %r15,%r15
    test %r15d,%r15d
    xor %r15,%rax
    cmp %eax,%r15d
    sub %r15d,%ecx
    lea 1(%r15,%rax),%rdx
    movq %r15,%xmm0
    push %r15
    call g
    add $8,%rsp
    mov 24(%rsp),%rbx
    mov 16(%rsp),%rbp
    mov 8(%rsp),%r12
    mov 40(%rsp),%r13
    mov 48(%rsp),%r14
    mov 32(%rsp),%r15
2:  add $72,%rsp
    ret
.size f,.-f
.globl h
.type h,@function
h:
    push %rbp
    mov %rsp,%rbp
    push %r15
    push %r14
    push %r13
    push %r12
    push %rbx
    sub %rdi,%rsp
    mov %rdi,%rbx
    mov %rdi,%r12
    mov %rdi,%r13
    mov %rdi,%r14
1:  add %rbx,%r14
    add %rbx,%r14
    add %r12,%r13
    jne 1b
    mov $7,%r15d
    mov %rsp,%r15
    add %rbx,%r15
    mov %r12,(%r15)
    call *%r15
    lea -40(%rbp),%rsp
    pop %rbx
    pop %r12
    pop %r13
    pop %r14
    pop %r15
    pop %rbp
    ret
.size h,.-h
