# memmove's copy from the end.
.globl f
.type f,@function
f:  lea -1(%rdi,%rcx),%rdi
    lea -1(%rsi,%rcx),%rsi
    std
    rep movsb
    cld
    ret
.size f,.-f
.globl g
.type g,@function
g:  std
    rep movsq
    cld
    jc f
    ret
.size g,.-g
