# mode: full
# Loads through rsi and rdi are masked too. A compare that may run zero times keeps the flags.
.globl f
.type f,@function
f:
    rep movsb
    cmp %rcx,%rcx
    repe cmpsb
    sete %al
    ret
.size f,.-f
