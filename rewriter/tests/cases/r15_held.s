# r15 lives in its slot of the frame. Where a straight line names it several times, a dead register
# holds its value, and the slot gets it after the last write.
        .globl  chain
        .type   chain,@function
chain:  push    %r15
        push    %r14
        push    %r13
        push    %r12
        push    %rbp
        push    %rbx
        mov     %rdi,%r12
        mov     %rsi,%r13
        mov     %rdx,%r14
        mov     %rcx,%rbp
        mov     %r8,%rbx
        call    other
        # The loop needs the other registers more.
0:      add     %rbx,%rbp
        add     %rbp,%rbx
        add     %r12,%r13
        add     %r13,%r14
        add     %r14,%r12
        lea     (%rbp,%r12),%rbx
        lea     (%rbx,%r13),%rbp
        lea     (%r13,%r14),%r12
        lea     (%r12,%rbx),%r13
        lea     (%r12,%rbp),%r14
        dec     %rax
        jne     0b
        # One store for four writes.
        mov     %eax,%r15d
        neg     %r15d
        shrx    %r15,%rbx,%r15
        add     %r14,%r15
        test    %r15,%r15
        je      1f
        # The register that holds it is loaded from it.
        mov     (%r15),%rcx
        mov     8(%r15),%rax
        add     %rcx,%rax
        mov     %rax,(%r12)
        # The stack pointer moves between a write and a read.
1:      lea     (%r12,%r13),%r15
        push    %r15
        push    %r15
        mov     %r15,%rdi
        call    other
        add     $16,%rsp
        # A copy of a byte, and the whole after it.
        setb    %r15b
        movzbl  %r15b,%eax
        or      %r15d,%eax
        # Nothing is kept after a scan that may find nothing.
        bsr     %rax,%r15
        xor     $63,%r15d
        mov     %r15d,%ecx
        shl     %cl,%rbp
        # An instruction writes two registers, one of them r15.
        mulx    %r15,%r15,%rdx
        xchg    %r15,%rdx
        # The value is not needed after the last write.
        mov     %rbp,%r15
        add     %r13,%r15
        lea     (%rbp,%r14),%rax
        pop     %rbx
        pop     %rbp
        pop     %r12
        pop     %r13
        pop     %r14
        pop     %r15
        ret
        .size   chain,.-chain
        .section .note.GNU-stack,"",@progbits
