# A shift by a count of zero keeps the flags of before, so inserted code keeps them, too.
        .text
        .globl  filled
        .type   filled,@function
filled: mov     %rdx,%rcx
        cmp     %r8d,%r9d
        rep stosb
        mov     %r9d,%ecx
        shl     %cl,%r10d
        setc    %al
        ret
        .size   filled,.-filled
