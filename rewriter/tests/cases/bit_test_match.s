# mode: match
# The check of the store that a bit test ends with keeps the carry that the test made.
.globl f
.type f,@function
f:
    bts %rcx,(%rdi)
    setb %al
    ret
.size f,.-f
