# The return address is not on the data stack.
.globl f
.type f,@function
f:  mov (%rsp),%rax
    ret
.size f,.-f
.globl g
.type g,@function
g:  push %rax
    ret
.size g,.-g
