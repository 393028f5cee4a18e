# r15 is saved by a push. The store to the frame keeps a variable that is not set on this path, and
# the load brings the variable back: no convention of the function's own.
        .text
        .globl keeps
        .type keeps,@function
keeps:
        push %r15
        sub $16,%rsp
        test %edi,%edi
        je 1f
        mov %r15,8(%rsp)
        call known
        mov 8(%rsp),%r15
        cmp %rax,%r15
        cmovb %r15,%rax
        jmp 2f
1:      xor %r15d,%r15d
        call known
        add %r15,%rax
2:      add $16,%rsp
        pop %r15
        ret
        .size keeps,.-keeps
