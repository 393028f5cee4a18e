# The function uses all preserved registers. The one that loops use least moves to the frame slot of
# r15 (here r12).
.globl f
.type f,@function
f:
    push %r15
    push %r14
    push %r13
    push %r12
    push %rbp
    push %rbx
    mov %rdi,%r12
    mov %rsi,%r15
1:  add %r15,%r14
    add %r13,%rbx
    add (%r15,%rbp),%r13
    dec %rbp
    jne 1b
    mov %r12,%rax
    mov (%r12),%rcx
    cmp $5,%r12
    call g
    pop %rbx
    pop %rbp
    pop %r12
    pop %r13
    pop %r14
    pop %r15
    ret
.size f,.-f
