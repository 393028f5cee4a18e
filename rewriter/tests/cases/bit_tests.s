# Bit offsets in registers move the operand: the word is addressed first.
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
