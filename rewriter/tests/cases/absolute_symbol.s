# A number, also where other objects see it; glibc's locale members define such symbols.
.globl used
used = 1
.globl f
.type f,@function
f:  mov p(%rip),%rax
    ret
.size f,.-f
.data
p: .quad used
