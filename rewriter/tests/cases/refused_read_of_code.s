# The bytes of a function are read. A slot has other bytes. The second function names a place before
# its table at which an instruction begins: nobody knows which of them is meant.
.globl f
.type f,@function
f:  lea f(%rip),%rax
    add %rdi,%rax
    movzbl (%rax),%eax
    ret
.size f,.-f
.globl g
.type g,@function
g:  lea table-2(%rip),%rax
    movzbl (%rax,%rdi),%eax
    nop
    ret
.size g,.-g
table: .byte 0x90, 0x90
