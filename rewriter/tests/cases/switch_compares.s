# Switches that compare their index, so that their functions can save registers on the control
# stack. The entries of their tables are left out. Others keep their tables: with too many runs,
# where nothing is saved, with a table that data names, with a target in another section, beside a
# jump by a pointer, and with an index that changes before the jump.
        .macro  function name
        .text
        .globl  \name
        .type   \name,@function
\name:
        .endm
        .macro  jumps table
        movslq  (\table,%rdi,4),%rax
        add     \table,%rax
        jmp     *%rax
        .endm
        .macro  result number
        mov     $\number,%eax
        pop     %rbx
        ret
        .endm

        # The table's address stays in a register around a loop.
        function loops
        push    %rbx
        push    %rbp
        lea     .Lone(%rip),%rbx
1:      call    other
        mov     (%rax),%edi
        cmp     $4,%edi
        ja      2f
        jumps   %rbx
.La:    inc     %ebp
        jmp     1b
.Lb:    dec     %ebp
        jmp     1b
.Lc:    neg     %ebp
        jmp     1b
2:      mov     %ebp,%eax
        pop     %rbp
        pop     %rbx
        ret

        # Seven runs, the last of them with a large number. Nobody else reads the table's address.
        function runs
        push    %rbx
        mov     %rsi,%rbx
        call    other
        mov     %eax,%edi
        lea     .Ltwo(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rcx
        add     %rdx,%rcx
        jmp     *%rcx
.Ld:    result  1
.Le:    result  2
.Lf:    result  3
.Lg:    result  4
.Lh:    result  5
.Li:    result  6
.Lj:    result  7

        # One target.
        function single
        push    %rbx
        call    other
        mov     %eax,%edi
        lea     .Lsingle(%rip),%rdx
        jumps   %rdx
.Lk:    result  1

        # Too many.
        function many
        push    %rbx
        call    other
        mov     %eax,%edi
        lea     .Lmany(%rip),%rdx
        jumps   %rdx
        .irp    number,0,1,2,3,4,5,6,7,8
.Lm\number: result \number
        .endr

        # Nothing is saved.
        function saves_none
        lea     .Lnone(%rip),%rdx
        jumps   %rdx
.Ln:    mov     $1,%eax
        ret
.Lo:    mov     $2,%eax
        ret

        # Data names the table.
        function named
        push    %rbx
        call    other
        mov     %eax,%edi
        lea     .Lnamed(%rip),%rdx
        jumps   %rdx
.Lp:    result  1
.Lq:    result  2

        # A target in another section.
        function cold
        push    %rbx
        call    other
        mov     %eax,%edi
        lea     .Lcold(%rip),%rdx
        jumps   %rdx
.Lr:    result  1
        .section .text.unlikely,"ax",@progbits
        .type   cold.cold,@function
cold.cold:
.Ls:    result  2

        # A jump by a pointer to a label.
        function pointer
        push    %rbx
        call    other
        test    %eax,%eax
        je      3f
        mov     %eax,%edi
        lea     .Lpointer(%rip),%rdx
        jumps   %rdx
.Lt:    result  1
.Lu:    result  2
3:      mov     labels(%rip),%rax
        jmp     *%rax
.Lv:    result  3

        # Something stands between the load and the jump.
        function between
        push    %rbx
        call    other
        mov     %eax,%edi
        lea     .Lbetween(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        mov     %rsi,%rdi
        add     %rdx,%rax
        jmp     *%rax
.Lw:    result  1
.Lx:    result  2

        .section .rodata
        .p2align 2
.Lone:  .long   .La-.Lone,.Lb-.Lone,.Lb-.Lone,.Lc-.Lone,.La-.Lone
.Ltwo:  .long   .Ld-.Ltwo,.Le-.Ltwo,.Lf-.Ltwo,.Lg-.Ltwo,.Lh-.Ltwo
        .rept   128
        .long   .Li-.Ltwo
        .endr
        .long   .Lj-.Ltwo
.Lsingle: .long .Lk-.Lsingle,.Lk-.Lsingle
.Lmany: .irp    number,0,1,2,3,4,5,6,7,8
        .long   .Lm\number-.Lmany
        .endr
.Lnone: .long   .Ln-.Lnone,.Lo-.Lnone
.Lnamed: .long  .Lp-.Lnamed,.Lq-.Lnamed
.Lcold: .long   .Lr-.Lcold,.Ls-.Lcold
.Lpointer: .long .Lt-.Lpointer,.Lu-.Lpointer
.Lbetween: .long .Lw-.Lbetween,.Lx-.Lbetween
        .data
name:   .quad   .Lnamed
labels: .quad   .Lv
        .section .note.GNU-stack,"",@progbits
