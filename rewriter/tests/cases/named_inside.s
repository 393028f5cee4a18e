# A symbol in the middle of a function, as nasm leaves them: nobody jumps there, but the data stack
# pointer has its usual distance.
        .text
        .globl sums
        .type sums,@function
sums:
        mov %rdi,%rax
        push %rbx
        mov %rdx,%rbx
        pxor %mm6,%mm6
        .type sums.loop,@notype
sums.loop:
        movq (%rax),%mm0
        paddusw (%rbx),%mm0
        paddusw %mm0,%mm6
        movd %mm6,%eax
        pop %rbx
        ret
