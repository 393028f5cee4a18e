# A hand-written function takes an argument in r11, so the spilled store before the call takes
# another register.
.globl f
.type f,@function
f:
    push %r15
    mov (%rsi),%r15
    mov 8(%rsi),%r11
    shr $2,%r15
    bts %rcx,(%rdi)
    xor %eax,%eax
    call helper
    pop %r15
    ret
.size f,.-f
.type helper,@function
helper:
    mov %r11,%rax
    add %rcx,%rax
    add %rdx,%rax
    ret
.size helper,.-helper
