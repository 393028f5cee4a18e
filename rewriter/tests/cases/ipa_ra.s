# The caller keeps a value in r11 across a call to a function of this object, so the callee must not
# use r11 for its push.
.type callee,@function
callee:
    push 8(%rdi)
    pop %rax
    ret
.size callee,.-callee
.globl f
.type f,@function
f:
    mov %rsi,%r11
    call callee
    add %r11,%rax
    ret
.size f,.-f
