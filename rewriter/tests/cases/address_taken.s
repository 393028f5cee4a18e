# Function addresses with and without relocation, in data, through the GOT.
.type s,@function
s:  ret
.size s,.-s
.globl f
.type f,@function
f:
    lea s(%rip),%rax
    lea f(%rip),%rcx
    lea h(%rip),%rdx
    mov h@GOTPCREL(%rip),%rsi
    movabs $s,%r8
    jmp *h@GOTPCREL(%rip)
.size f,.-f
.data
    .quad s
    .quad f
    .quad h
