# %ah cannot be combined with r15.
.globl f
.type f,@function
f:
    mov %ah,-8(%rsp)
    mov %dh,-4(%rsp,%rcx)
    mov -8(%rsp),%bh
    ret
.size f,.-f
