# Targets of switches after their jumps. These switches jump by arrays of slots: a function returns
# with the target, writes a byte of its register, has another switch across which flags are live, or
# calls a function that writes the register. An unused entry leads to the next function. Others keep
# their tables, because the function or a caller reads the register. One keeps its table because the
# table's address is in a register that a callee need not preserve.
        .text
        .globl  nothing
        .type   nothing,@function
nothing:
        lea     .Lone(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        jmp     *%rax
.La:    movl    $1,(%rsi)
.Lb:    ret
        .size   nothing,.-nothing
        .globl  byte
        .type   byte,@function
byte:   lea     .Ltwo(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        jmp     *%rax
.Lc:    mov     $1,%al
        ret
.Ld:    xor     %eax,%eax
        ret
        .size   byte,.-byte
        .globl  rest
        .type   rest,@function
rest:   lea     .Lthree(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        jmp     *%rax
.Le:    mov     $1,%al
        movzbl  %ah,%eax
        ret
.Lf:    xor     %eax,%eax
        ret
        .size   rest,.-rest
        .globl  padded
        .type   padded,@function
padded: lea     .Lfour(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        test    %esi,%esi
        jmp     *%rax
.Lg:    je      .Lh
        lea     .Lfive(%rip),%rdx
        movslq  (%rdx,%rcx,4),%rax
        add     %rdx,%rax
        jmp     *%rax
.Lh:    mov     %r11d,%eax
        ret
.Lu:    mov     $2,%eax
        ret
        .size   padded,.-padded
        .type   leaves,@function
leaves: lea     .Lsix(%rip),%rdx
        movslq  (%rdx,%rdi,4),%r9
        add     %rdx,%r9
        jmp     *%r9
.Li:    mov     $1,%r9d
.Lj:    ret
        .size   leaves,.-leaves
        .type   goes,@function
goes:   lea     .Lseven(%rip),%rdx
        movslq  (%rdx,%rdi,4),%r8
        add     %rdx,%r8
        jmp     *%r8
.Lk:    mov     (%rsi),%rcx
        jmp     *%rcx
.Ll:    mov     8(%rsi),%rcx
        jmp     *%rcx
        .size   goes,.-goes
        .type   keeps,@function
keeps:  test    %esi,%esi
        je      1f
        xor     %r10d,%r10d
1:      ret
        .size   keeps,.-keeps
        .type   writes,@function
writes: xor     %r10d,%r10d
        ret
        .size   writes,.-writes
        .globl  calls
        .type   calls,@function
calls:  call    leaves
        mov     %r9,%rax
        call    goes
        add     %r8,%rax
        ret
        .size   calls,.-calls
        .globl  kept
        .type   kept,@function
kept:   lea     .Leight(%rip),%rdx
        movslq  (%rdx,%rdi,4),%r10
        add     %rdx,%r10
        jmp     *%r10
.Lm:    call    keeps
        mov     %r10,%rax
        ret
.Ln:    xor     %eax,%eax
        ret
        .size   kept,.-kept
        .globl  written
        .type   written,@function
written:
        lea     .Lnine(%rip),%rdx
        movslq  (%rdx,%rdi,4),%r10
        add     %rdx,%r10
        jmp     *%r10
.Lo:    call    writes
        mov     %r10,%rax
        ret
.Lp:    xor     %eax,%eax
        ret
        .size   written,.-written
        .globl  hole
        .type   hole,@function
hole:   sub     $8,%rsp
        mov     %rsi,%rax
1:      dec     %rdi
        js      .Lr
        lea     .Lten(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rcx
        add     %rdx,%rcx
        jmp     *%rcx
.Lq:    add     $3,%rax
        jmp     1b
.Lr:    lea     .Leleven(%rip),%rdx
        movslq  (%rdx,%rax,4),%rax
        add     %rdx,%rax
        jmp     *%rax
.Ls:    mov     $1,%eax
.Lt:    add     $8,%rsp
        ret
        .size   hole,.-hole
        .globl  next
        .type   next,@function
next:
.Lnext: xor     %eax,%eax
        ret
        .size   next,.-next
        .globl  around
        .type   around,@function
around: push    %rbx
        mov     %rdi,%rbx
        lea     .Ltwelve(%rip),%r10
1:      movslq  (%r10,%rbx,4),%rcx
        add     %r10,%rcx
        jmp     *%rcx
.Lv:    call    leaves
        dec     %rbx
        jmp     1b
.Lw:    pop     %rbx
        ret
        .size   around,.-around
        .globl  word
        .type   word,@function
word:   lea     .Lthirteen(%rip),%rdx
        movslq  (%rdx,%rdi,4),%rax
        add     %rdx,%rax
        jmp     *%rax
.Lx:    mov     $1,%ax
        shr     $16,%eax
        ret
.Ly:    xor     %eax,%eax
        ret
        .size   word,.-word
        .section .rodata
        .balign 4
.Lone:  .long   .La-.Lone, .Lb-.Lone
.Ltwo:  .long   .Lc-.Ltwo, .Ld-.Ltwo
.Lthree:
        .long   .Le-.Lthree, .Lf-.Lthree
.Lfour: .long   .Lg-.Lfour, .Lh-.Lfour
.Lfive: .long   .Lh-.Lfive, .Lu-.Lfive
.Lsix:  .long   .Li-.Lsix, .Lj-.Lsix
.Lseven:
        .long   .Lk-.Lseven, .Ll-.Lseven
.Leight:
        .long   .Lm-.Leight, .Ln-.Leight
.Lnine: .long   .Lo-.Lnine, .Lp-.Lnine
.Lten:  .long   .Lq-.Lten, .Lr-.Lten
.Leleven:
        .long   .Ls-.Leleven, .Lnext-.Leleven, .Lt-.Leleven
.Ltwelve:
        .long   .Lv-.Ltwelve, .Lw-.Ltwelve
.Lthirteen:
        .long   .Lx-.Lthirteen, .Ly-.Lthirteen
        .section .data.rel.ro,"aw"
# With these pointers the jumps of goes may stay inside it.
        .quad   .Lk, .Ll
        .section .note.GNU-stack,"",@progbits
