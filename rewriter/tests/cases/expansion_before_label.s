# Expansions of one instruction that end before a label, and begin at one. The data stack pointer
# moves to its place at the label after them.
        .text
        .globl  fill
        .type   fill,@function
fill:   sub     $8,%rsp
        mov     $512,%ecx
        rep stosq
1:      call    outside@PLT
        jmp     1b
        .size   fill,.-fill
# The pointers are not needed afterwards, but the flags are.
        .globl  copied
        .type   copied,@function
copied: cmp     %edx,%r8d
        push    %rbx
        rep movsb
        mov     %edx,%edi
        mov     %edx,%esi
1:      jc      2f
        call    outside@PLT
        clc
        jmp     1b
2:      pop     %rbx
        ret
        .size   copied,.-copied
# No register is free for the upper halves of the pointers.
        .globl  crowded
        .type   crowded,@function
crowded:
        sub     $24,%rsp
        rep movsq
1:      mov     %rdi,(%rsp)
        lea     (%rax,%rbx),%rax
        lea     (%rax,%rcx),%rax
        lea     (%rax,%rdx),%rax
        lea     (%rax,%rsi),%rax
        lea     (%rax,%rbp),%rax
        lea     (%rax,%r8),%rax
        lea     (%rax,%r9),%rax
        lea     (%rax,%r10),%rax
        lea     (%rax,%r11),%rax
        mov     %rax,8(%rsp)
        cmp     $9,%rax
        ja      1b
        add     $24,%rsp
        ret
        .size   crowded,.-crowded
        .globl  compared
        .type   compared,@function
compared:
        sub     $8,%rsp
        cmp     %rax,%rax
        repe cmpsb
1:      je      2f
        mov     %rsi,%rdi
        call    outside@PLT
        cmp     %ebx,%eax
        jmp     1b
2:      add     $8,%rsp
        ret
        .size   compared,.-compared
        .globl  sought
        .type   sought,@function
sought: sub     $8,%rsp
        repne scasb
1:      call    outside@PLT
        jmp     1b
        .size   sought,.-sought
        .globl  once
        .type   once,@function
once:   sub     $8,%rsp
        movsq
1:      stosb
        call    outside@PLT
        jmp     1b
        .size   once,.-once
        .globl  locked
        .type   locked,@function
locked: sub     $8,%rsp
        lock bts %rsi,(%rdi)
1:      call    outside@PLT
        jmp     1b
        .size   locked,.-locked
        .globl  backwards
        .type   backwards,@function
backwards:
        sub     $8,%rsp
        std
        rep movsb
        cld
1:      call    outside@PLT
        jmp     1b
        .size   backwards,.-backwards
# A label on both sides.
        .globl  between
        .type   between,@function
between:
        sub     $8,%rsp
1:      mov     $64,%ecx
        rep stosq
2:      rep movsq
3:      repe cmpsb
4:      lock btr %rsi,(%rdi)
5:      stosq
6:      call    outside@PLT
        test    %eax,%eax
        js      1b
        je      2b
        cmp     $2,%eax
        jb      3b
        je      4b
        cmp     $4,%eax
        jb      5b
        je      6b
        add     $8,%rsp
        ret
        .size   between,.-between
        .section .note.GNU-stack,"",@progbits
