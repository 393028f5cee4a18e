# The medium code model: 64-bit addresses of large data, and distances from the GOT in code that is
# position-independent. The address of the GOT may be in any register, and flags survive.
        .globl  far, near
        .type   far,@function
far:    movabs  $own@GOTOFF,%rdx
        cmp     %rsi,%rdi
        lea     _GLOBAL_OFFSET_TABLE_(%rip),%r9
        jb      1f
        lea     _GLOBAL_OFFSET_TABLE_(%rip),%rax
        add     %rdx,%rax
        mov     %edi,(%rax,%rsi,4)
        ret
1:      movabs  $own@GOTOFF+32,%rax
        mov     (%rax,%r9),%eax
        ret
        .size   far,.-far
        .type   near,@function
near:   movabs  $own+8,%rdx
        movabs  own+16,%rax
        mov     %rax,(%rdx)
        movabs  %eax,own
        movabs  own+4,%al
        ret
        .size   near,.-near
        .section .lbss,"awl",@nobits
own:    .zero   64
        .section .note.GNU-stack,"",@progbits
