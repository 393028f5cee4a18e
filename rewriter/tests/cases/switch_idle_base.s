# Addresses of tables that only a switch with an array of slots reads. They are left out, across
# other instructions and across a branch to code that does not read them. They stay where the code
# after the jump, or that after the branch, reads them, where two switches do, and where they are
# made before a loop. What is left of one in rax is no count of vector registers, also where the
# code of another path may have put one there.
        .text
        .globl  plain
        .type   plain,@function
plain:  lea     .Lone(%rip),%rdx
        mov     %esi,%eax
        cmp     $1,%edi
        ja      .Lout
        movslq  (%rdx,%rdi,4),%rcx
        add     %rdx,%rcx
        jmp     *%rcx
.La:    mov     $1,%eax
        ret
.Lb:    mov     %esi,%ecx
        call    other
        ret
.Lout:  xor     %edx,%edx
        ret
        .size   plain,.-plain
        .globl  after
        .type   after,@function
after:  lea     .Ltwo(%rip),%rcx
        movslq  (%rcx,%rdi,4),%rax
        add     %rcx,%rax
        jmp     *%rax
.Lc:    mov     (%rcx),%eax
        ret
.Ld:    xor     %eax,%eax
        ret
        .size   after,.-after
        .globl  beside
        .type   beside,@function
beside: lea     .Lthree(%rip),%rcx
        cmp     $1,%edi
        ja      .Lg
        movslq  (%rcx,%rdi,4),%rax
        add     %rcx,%rax
        jmp     *%rax
.Le:    mov     $1,%eax
        ret
.Lf:    mov     $2,%eax
        ret
.Lg:    mov     (%rcx),%eax
        ret
        .size   beside,.-beside
        .globl  twice
        .type   twice,@function
twice:  lea     .Lfour(%rip),%rcx
        movslq  (%rcx,%rdi,4),%rax
        add     %rcx,%rax
        jmp     *%rax
.Lh:    movslq  (%rcx,%rsi,4),%rax
        add     %rcx,%rax
        jmp     *%rax
.Li:    mov     $2,%eax
        ret
        .size   twice,.-twice
        .globl  loops
        .type   loops,@function
loops:  lea     .Lfive(%rip),%rcx
1:      movzbl  (%rsi),%edi
        inc     %rsi
        movslq  (%rcx,%rdi,4),%rax
        add     %rcx,%rax
        jmp     *%rax
.Lj:    jmp     1b
.Lk:    mov     $2,%eax
        ret
        .size   loops,.-loops
        .globl  counted
        .type   counted,@function
counted: push   %rbx
        lea     .Lsix(%rip),%rax
        movslq  (%rax,%rdi,4),%rcx
        add     %rax,%rcx
        jmp     *%rcx
.Ll:    test    %esi,%esi
        je      1f
        mov     %rsi,%rax
        sub     %rdx,%rax
1:      call    other
        pop     %rbx
        ret
.Lm:    pop     %rbx
        ret
        .size   counted,.-counted
        .globl  otherwise
        .type   otherwise,@function
otherwise: push %rbx
        lea     .Lseven(%rip),%rax
        cmp     $1,%edi
        ja      .Lp
        movslq  (%rax,%rdi,4),%rcx
        add     %rax,%rcx
        jmp     *%rcx
.Ln:    pop     %rbx
        ret
.Lo:    mov     $2,%eax
        pop     %rbx
        ret
.Lp:    test    %esi,%esi
        je      1f
        mov     %rsi,%rax
        sub     %rdx,%rax
1:      call    other
        pop     %rbx
        ret
        .size   otherwise,.-otherwise
        .section .rodata
        .p2align 2
.Lone:  .long   .La-.Lone,.Lb-.Lone
.Ltwo:  .long   .Lc-.Ltwo,.Ld-.Ltwo
.Lthree: .long  .Le-.Lthree,.Lf-.Lthree
.Lfour: .long   .Lh-.Lfour,.Li-.Lfour
.Lfive: .long   .Lj-.Lfive,.Lk-.Lfive
.Lsix:  .long   .Ll-.Lsix,.Lm-.Lsix
.Lseven: .long  .Ln-.Lseven,.Lo-.Lseven
