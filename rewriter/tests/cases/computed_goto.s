# A 64-bit table of labels, and a jump through memory.
.globl f
.type f,@function
f:
    lea table(%rip),%rdx
    jmp *(%rdx,%rdi,8)
1:  mov $1,%eax
    ret
2:  mov $2,%eax
    ret
.size f,.-f
.section .data.rel.ro.local,"aw"
.align 8
table:
    .quad 1b
    .quad 2b
