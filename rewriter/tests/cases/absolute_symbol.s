# A symbol that is a number and that other objects see. glibc's locale members define such symbols.
.globl used
used = 1
.globl f
.type f,@function
f:  mov p(%rip),%rax
    ret
.size f,.-f
.data
p: .quad used
