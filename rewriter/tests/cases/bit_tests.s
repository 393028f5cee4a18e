# A bit offset in a register moves the operand, so the word's address is computed first.
.globl f
.type f,@function
f:
    bts %rcx,(%rdi)
    setc %al
    btr %esi,8(%rsp)
    bt %esi,x(%rip)
    btc $3,(%rdi)
    ret
.size f,.-f
