.globl f
.type f,@function
f:  std
    wrgsbase %rax
    mov %rax,%gs:8
    cli
    ret
.size f,.-f
