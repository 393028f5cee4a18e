# The base of a table stays in a register across the jumps that read the table, and other code keeps
# something else there. All jumps have arrays.
#
# In `once` the base in rbp is proven after the targets of the first jump are known: that one does
# not lead to .Lc.
        .globl  once
        .type   once,@function
once:   push    %rbp
        mov     %rsi,%rbp
1:      movzbl  (%rdi),%eax
        cmp     $1,%eax
        ja      3f
        lea     first(%rip),%rdx
        movslq  (%rdx,%rax,4),%rcx
        add     %rdx,%rcx
        jmp     *%rcx
.La:    mov     (%rbp),%rbp
        inc     %rdi
        jmp     1b
.Lb:    lea     second(%rip),%rbp
2:      inc     %rdi
        movzbl  (%rdi),%eax
        cmp     $1,%eax
        ja      3f
        movslq  (%rbp,%rax,4),%rax
        add     %rbp,%rax
        jmp     *%rax
.Lc:    inc     %esi
        jmp     2b
.Ld:    xor     %ebp,%ebp
        jmp     1b
3:      mov     %esi,%eax
        pop     %rbp
        ret
        .size   once,.-once
# In `both` neither base is proven without the other: the jump to a label of the other table would
# come to the reads with something else in the register.
        .globl  both
        .type   both,@function
both:   push    %rbp
        push    %rbx
        mov     %rsi,%rbx
1:      lea     third(%rip),%rbp
2:      movzbl  (%rdi),%eax
        inc     %rdi
        cmp     $2,%eax
        ja      .Lend
        movslq  (%rbp,%rax,4),%rax
        add     %rbp,%rax
        jmp     *%rax
.Le:    lea     fourth(%rip),%rbx
        mov     %rsi,%rbp
3:      movzbl  (%rdi),%edx
        inc     %rdi
        cmp     $2,%edx
        ja      .Lend
        movslq  (%rbx,%rdx,4),%rdx
        add     %rbx,%rdx
        jmp     *%rdx
.Lf:    inc     %esi
        jmp     2b
.Lg:    add     %ebp,%esi
        jmp     3b
.Lh:    mov     %rbp,%rbx
        jmp     1b
.Lend:  mov     %esi,%eax
        pop     %rbx
        pop     %rbp
        ret
        .size   both,.-both
# In `other` the base may be something else, so the form of the switch is all that is known.
        .globl  other
        .type   other,@function
other:  push    %rbp
        mov     %rsi,%rbp
        test    %edx,%edx
        je      1f
        lea     fifth(%rip),%rbp
1:      movzbl  (%rdi),%eax
        inc     %rdi
        cmp     $1,%eax
        ja      2f
        movslq  (%rbp,%rax,4),%rax
        add     %rbp,%rax
        jmp     *%rax
.Li:    inc     %esi
        jmp     1b
.Lj:    dec     %esi
        jmp     1b
2:      mov     %esi,%eax
        pop     %rbp
        ret
        .size   other,.-other
        .section .rodata
        .balign 4
first:  .long   .La-first, .Lb-first
second: .long   .Lc-second, .Ld-second
third:  .long   .Le-third, .Lf-third, .Lend-third
fourth: .long   .Lg-fourth, .Lh-fourth, .Lend-fourth
fifth:  .long   .Li-fifth, .Lj-fifth
        .section .note.GNU-stack,"",@progbits
