# glibc's locale members define such symbols.
.globl used
used = 1
.globl f
.type f,@function
f:  ret
.size f,.-f
