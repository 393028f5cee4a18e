# A vector of C++ in the frame: its pointer first leads to room behind it, and after the call
# elsewhere. So the second store does not overwrite the saved r15.
        .text
        .globl grows
        .type grows,@function
grows:
        push %r15
        sub $16,%rsp
        mov %rdi,%r15
        lea 8(%rsp),%rax
        mov %rax,(%rsp)
        mov %rsp,%rdi
        call grow
        mov (%rsp),%rcx
        movq $1,(%rcx)
        movq $2,8(%rcx)
        mov %r15,%rax
        add $16,%rsp
        pop %r15
        ret
        .size grows,.-grows
