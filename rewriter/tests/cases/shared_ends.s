# Equal ends become one in a function, but not between functions. Loops stay aligned. Labels that
# only forward jumps reach do not.
.globl f
.type f,@function
f:
    push %rbx
    push %rbp
    push %r12
    test %rdi,%rdi
    je 3f
    .p2align 4
1:  dec %rdi
    jne 1b
    call g
    pop %r12
    pop %rbp
    pop %rbx
    ret
    .p2align 4
3:  xor %eax,%eax
    pop %r12
    pop %rbp
    pop %rbx
    ret
4:  call g
    mov %ebp,%eax
    pop %r12
    pop %rbp
    pop %rbx
    jmp g
.size f,.-f
.p2align 4
.globl h
.type h,@function
h:
    push %rbx
    push %rbp
    push %r12
    pop %r12
    pop %rbp
    pop %rbx
    ret
.size h,.-h
