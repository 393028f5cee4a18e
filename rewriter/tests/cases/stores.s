# Every addressing form.
.globl f
.type f,@function
f:
    mov %rax,(%rdi)
    mov %rax,-8(%rdi,%rcx,4)
    mov %eax,x(%rip)
    movl $7,x+4(%rip)
    mov %al,0x40
    vmovups %zmm1,64(%rdi)
    lock xadd %eax,(%r8)
    fstpt 32(%rsp)
    setne (%r13)
    ret
.size f,.-f
