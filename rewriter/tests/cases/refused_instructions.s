.globl f
.type f,@function
f:  std
    wrgsbase %rax
    mov %rax,%gs:8
    pushf
    ret
.size f,.-f
