# The loops begin with instructions that the new code leaves out. In a budgeted text a charge stands
# there, before the code of the next instruction.
        .globl  f
        .type   f,@function
f:      mov     $4,%ecx
1:      prefetcht0 64(%rsi)
        prefetcht0 128(%rsi)
        mov     (%rsi),%rax
        mov     %rax,(%rdi)
        add     $8,%rsi
        add     $8,%rdi
        dec     %ecx
        jne     1b
2:      clflush (%rdi)
        lock addl $1,(%rdi)
        sub     $1,%rdx
        jne     2b
        ret
        .size   f,.-f
        .section .note.GNU-stack,"",@progbits
