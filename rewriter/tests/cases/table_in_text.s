# A table between functions whose bytes are instructions. Code reads it, and so does a function to
# which its address is passed.
.globl f
.type f,@function
f:  lea table(%rip),%rax
    mov (%rax,%rdi,8),%rax
    ret
.size f,.-f
.globl g
.type g,@function
g:  lea table(%rip),%rdi
    call helper
    add $1,%rax
    ret
.size g,.-g
.type helper,@function
helper:
    mov 8(%rdi),%rax
    ret
.size helper,.-helper
.align 8
table: .quad 0x9090909090909090, 0x9090c39090909090, 0xc3c3c3c3c3c3c3c3
