# A function reads its caller's r15. So no function of this object keeps r15 in a frame slot: both
# use one place of the TCB page.
.globl f
.type f,@function
f:
    push %r15
    push %r14
    push %r13
    push %r12
    push %rbp
    push %rbx
    mov %rdi,%r15
    call helper
    pop %rbx
    pop %rbp
    pop %r12
    pop %r13
    pop %r14
    pop %r15
    ret
.size f,.-f
.type helper,@function
helper:
    add %r15,%rbx
    add %r12,%rbp
    add %r13,%r14
    ret
.size helper,.-helper
