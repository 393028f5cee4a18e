# String instructions that run once, in mode write. `lods` only reads.
.globl f
.type f,@function
f:  movsb
    movsw
    movsl
    movsq
    stosb
    stosw
    stosl
    stosq
    lodsb
    lodsq
    ret
.size f,.-f
# The flags live on.
.globl g
.type g,@function
g:  cmp %rdi,%rsi
    movsb
    jc f
    ret
.size g,.-g
# Two words for the pointers' upper halves: one is in a register that is set before it is read.
.globl h
.type h,@function
h:  rep movsb
    xor %r8d,%r8d
    lea (%rdi,%rsi),%rax
    ret
.size h,.-h
