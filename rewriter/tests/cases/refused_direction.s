.globl f
.type f,@function
f:  std
    rep movsb
1:  cld
    ret
.size f,.-f
.globl g
.type g,@function
g:  std
    rep stosb
    cld
    jmp 1b
.size g,.-g
