# mode: match
# A bit test ends with a store. The check of this store keeps the carry flag, the test's result.
.globl f
.type f,@function
f:
    bts %rcx,(%rdi)
    setb %al
    ret
.size f,.-f
