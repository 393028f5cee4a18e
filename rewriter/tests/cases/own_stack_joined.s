# The stack pointer comes to labels from several computations: from two realigned frames, from a
# loop that touches pages, and around a subtraction. It comes back from the frame, or from a
# register that the functions called leave alone. A system call that ends the thread leads nowhere.
        .globl  two_frames, touched, lowered, started
        .type   two_frames,@function
two_frames:
        test    %rdx,%rdx
        je      9f
        pushf
        push    %rbx
        push    %r15
        cmp     $8,%rdx
        jb      1f
        lea     -336(%rsp),%r15
        and     $-64,%r15
        xchg    %rsp,%r15
        mov     %r15,16(%rsp)
        mov     %rdi,80(%rsp)
        call    rounds
        jmp     2f
1:      lea     -88(%rsp),%rbx
        and     $-64,%rbx
        xchg    %rsp,%rbx
        mov     %rbx,16(%rsp)
2:      mov     16(%rsp),%rsi
        mov     (%rsi),%r15
        mov     8(%rsi),%rbx
        lea     16(%rsi),%rsp
        popf
9:      ret
        .size   two_frames,.-two_frames
        .type   touched,@function
touched:
        mov     %rsp,%rax
        push    %rbp
        mov     %rsp,%r11
        lea     -16(%rsp,%r9,8),%r10
        and     $-1024,%r10
        sub     %r10,%r11
        and     $-4096,%r11
        lea     (%r10,%r11,1),%rsp
        mov     (%rsp),%r11
        cmp     %r10,%rsp
        ja      1f
        jmp     2f
1:      lea     -4096(%rsp),%rsp
        mov     (%rsp),%r11
        cmp     %r10,%rsp
        ja      1b
2:      mov     %rax,8(%rsp,%r9,8)
        mov     %rdi,(%rsp,%rcx,8)
        mov     8(%rsp,%r9,8),%rsi
        mov     -8(%rsi),%rbp
        lea     (%rsi),%rsp
        ret
        .size   touched,.-touched
        .type   lowered,@function
lowered:
        lea     (%rsp),%rax
        push    %rbx
        add     $-128,%rsp
        and     $-128,%rsp
        mov     %rsi,%rbx
        and     %rsp,%rbx
        sub     %rsi,%rbx
        jc      1f
        sub     %rbx,%rsp
1:      mov     $3,%r10d
        call    rounds
        mov     -8(%rax),%rbx
        lea     (%rax),%rsp
        mov     %r10,%rax
        ret
        .size   lowered,.-lowered
        .type   rounds,@function
rounds: mov     $2,%ecx
1:      dec     %ecx
        jne     1b
        ret
        .size   rounds,.-rounds
        .type   started,@function
started:
        test    %eax,%eax
        jl      2f
        je      1f
        ret
1:      and     $-16,%rsp
        mov     %r8,%rdi
        call    *%rdx
        mov     %eax,%edi
        mov     $60,%eax
        syscall
2:      or      $-1,%rax
        ret
        .size   started,.-started
        .section .note.GNU-stack,"",@progbits
