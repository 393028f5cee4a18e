# Targets in argument registers and in memory are copied to rax. rax is masked in place.
.globl f
.type f,@function
f:
    sub $8,%rsp
    call *%rax
    call *%rdx
    call *8(%rdi)
    call *(%rsp)
    call *table(%rip)
    add $8,%rsp
    jmp *%rax
.size f,.-f
.globl g
.type g,@function
g:  jmp *16(%rdi)
.size g,.-g
