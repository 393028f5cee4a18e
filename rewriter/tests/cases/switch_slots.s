# Switches that jump by an array of dispatch slots, and those that keep their tables: a target that
# is read again, flags of the sum that are read, a load that is not in the jump's line, an entry
# that is read, a group.
        .text
        .globl  slots
        .type   slots,@function
slots:  lea     .Lone(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        mov     %esi,%ecx
        add     %rdx,%rax
        lea     1(%rcx),%ecx
        jmp     *%rax
.La:    call    outside
        ret
.Lb:    mov     %ecx,%eax
        ret
        .size   slots,.-slots
        .globl  same_index
        .type   same_index,@function
same_index:
        mov     %edi,%eax
        lea     .Ltwo(%rip),%rcx
        movslq  (%rcx,%rax,4),%rax
        add     %rcx,%rax
        notrack jmp *%rax
.Lc:    mov     $1,%eax
        ret
.Ld:    mov     $2,%eax
        ret
        .size   same_index,.-same_index
        .globl  argument
        .type   argument,@function
argument:
        lea     .Lthree(%rip),%rcx
        movslq  (%rcx,%rdi,4),%rdx
        add     %rcx,%rdx
        jmp     *%rdx
.Le:    jmp     outside
.Lf:    mov     $1,%eax
        ret
        .size   argument,.-argument
        .globl  read_again
        .type   read_again,@function
read_again:
        lea     .Lfour(%rip),%rcx
        movslq  (%rcx,%rdi,4),%r8
        add     %rcx,%r8
        jmp     *%r8
.Lg:    mov     %r8,%rax
        ret
.Lh:    xor     %eax,%eax
        ret
        .size   read_again,.-read_again
        .globl  flags
        .type   flags,@function
flags:  lea     .Lfive(%rip),%rcx
        movslq  (%rcx,%rdi,4),%rax
        add     %rcx,%rax
        setc    %dl
        jmp     *%rax
.Li:    movzbl  %dl,%eax
        ret
.Lj:    xor     %eax,%eax
        ret
        .size   flags,.-flags
        .globl  far
        .type   far,@function
far:    lea     .Lsix(%rip),%rcx
        movslq  (%rcx,%rdi,4),%rax
        test    %esi,%esi
        je      1f
        mov     $3,%esi
1:      add     %rcx,%rax
        jmp     *%rax
.Lk:    mov     %esi,%eax
        ret
.Ll:    xor     %eax,%eax
        ret
        .size   far,.-far
        .globl  sum_read
        .type   sum_read,@function
sum_read:
        lea     .Lseven(%rip),%rcx
        movslq  (%rcx,%rdi,4),%rax
        mov     %eax,%esi
        add     %rcx,%rax
        jmp     *%rax
.Lm:    mov     %esi,%eax
        ret
.Ln:    xor     %eax,%eax
        ret
        .size   sum_read,.-sum_read
        .section .text.grouped,"axG",@progbits,grouped,comdat
        .weak   grouped
        .type   grouped,@function
grouped:
        lea     .Leight(%rip),%rcx
        movslq  (%rcx,%rdi,4),%rax
        add     %rcx,%rax
        jmp     *%rax
.Lo:    mov     $1,%eax
        ret
.Lp:    xor     %eax,%eax
        ret
        .size   grouped,.-grouped
        .section .rodata.grouped,"aG",@progbits,grouped,comdat
        .balign 4
.Leight:
        .long   .Lo-.Leight, .Lp-.Leight
        .section .rodata
        .balign 4
.Lone:  .long   .La-.Lone, .Lb-.Lone, .La-.Lone
.Ltwo:  .long   .Lc-.Ltwo, .Ld-.Ltwo
.Lthree:
        .long   .Le-.Lthree, .Lf-.Lthree
.Lfour: .long   .Lg-.Lfour, .Lh-.Lfour
.Lfive: .long   .Li-.Lfive, .Lj-.Lfive
.Lsix:  .long   .Lk-.Lsix, .Ll-.Lsix
.Lseven:
        .long   .Lm-.Lseven, .Ln-.Lseven
        .section .note.GNU-stack,"",@progbits
