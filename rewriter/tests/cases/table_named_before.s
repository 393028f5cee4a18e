# A loop counts down to 1, so it names the place before its table. That place lies in the middle of
# an instruction.
.globl f
.type f,@function
f:  push %r14
    mov $3,%ecx
    lea table-8(%rip),%r14
    xor %eax,%eax
1:  xor (%r14,%rcx,8),%rax
    dec %ecx
    jne 1b
    mov %eax,0x11223344(%rdi)
    pop %r14
    ret
.size f,.-f
.align 4
table: .quad 0x9090909090909090, 0x9090c39090909090, 0xc3c3c3c3c3c3c3c3
