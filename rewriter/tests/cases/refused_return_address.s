# The return address is not on the data stack. A read finds a copy of it there, but code can neither
# replace nor remove it.
.globl f
.type f,@function
f:  mov %rax,(%rsp)
    ret
.size f,.-f
.globl g
.type g,@function
g:  push %rax
    ret
.size g,.-g
.globl h
.type h,@function
h:  pop %rax
    jmp *%rax
.size h,.-h
.globl i
.type i,@function
i:  lock incl 4(%rsp)
    jmp *(%rsp)
.size i,.-i
