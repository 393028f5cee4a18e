# mode: full
# Loads of loops that wait for what they gave in the last round take the window's base from a
# register.
        .globl  length
        .type   length,@function
length: xor     %eax,%eax
        xor     %r8d,%r8d
        xor     %r9d,%r9d
        test    %rdi,%rdi
        je      1f
0:      inc     %eax
        mov     8(%rdi),%rdi
        test    %rdi,%rdi
        jne     0b
1:      ret
        .size   length,.-length

        # The loads of two fields: the second one waits for nothing.
        .globl  sum
        .type   sum,@function
sum:    xor     %eax,%eax
        xor     %r8d,%r8d
        xor     %r9d,%r9d
0:      add     16(%rdi),%rax
        mov     (%rdi),%rdi
        test    %rdi,%rdi
        jne     0b
        ret
        .size   sum,.-sum

        # A table of states. An index stays.
        .globl  states
        .type   states,@function
states: xor     %r8d,%r8d
        xor     %r9d,%r9d
0:      movzbl  (%rdi),%eax
        inc     %rdi
        add     %rax,%rdx
        movzwl  2(%rdx),%edx
        lea     (%rsi,%rdx,8),%rdx
        dec     %ecx
        jne     0b
        mov     %edx,%eax
0:      movzbl  (%rdi,%rax),%eax
        dec     %esi
        jne     0b
        ret
        .size   states,.-states

        # Only the result's own register is free beside one for the base. A sum needs what is there.
        .globl  tight
        .type   tight,@function
tight:  push    %rbx
        push    %rbp
        push    %r12
        push    %r13
        push    %r14
        push    %r15
0:      add     %rax,%rcx
        add     %rcx,%rdx
        add     %rdx,%rsi
        add     %rsi,%r8
        add     %r8,%r9
        add     %r9,%r10
        add     %r10,%r11
        add     %r11,%rbx
        add     %rbx,%rbp
        add     %rbp,%r12
        add     %r12,%r13
        add     %r13,%rax
        mov     24(%rdi),%rdi
        test    %rdi,%rdi
        jne     0b
        mov     %r11,%rdi
1:      add     %rax,%rcx
        add     %rcx,%rdx
        add     %rdx,%rsi
        add     %rsi,%r8
        add     %r8,%r9
        add     %r9,%r10
        add     %r10,%r11
        add     %r11,%rbx
        add     %rbx,%rbp
        add     %rbp,%r12
        add     %r12,%r13
        add     %r13,%rax
        add     24(%rdi),%rdi
        test    %edi,%edi
        jne     1b
        add     %r13,%rax
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .size   tight,.-tight

        # A far field, one before the address, a high byte, a thread local and a masked load stay.
        .globl  others
        .type   others,@function
others: xor     %r8d,%r8d
        xor     %r9d,%r9d
0:      mov     0x8000(%rdi),%rdi
        mov     -8(%rdi),%rdi
        test    %rdi,%rdi
        jne     0b
0:      mov     (%rcx),%ah
        add     %rax,%rcx
        cmp     %rdx,%rcx
        jne     0b
1:      vmaskmovps (%rsi),%ymm0,%ymm1
        vmovd   %xmm1,%esi
        test    %esi,%esi
        jne     1b
2:      mov     %fs:local@tpoff(%rax),%rax
        test    %rax,%rax
        jne     2b
2:      add     (%rdx),%rdx
        cmpq    $0,(%rdx)
        jne     2b
        ret
        .size   others,.-others

        # A call may change every register.
        .globl  calls
        .type   calls,@function
calls:  push    %rbx
        mov     %rdi,%rbx
0:      mov     (%rbx),%rbx
        mov     %rbx,%rdi
        call    other
        test    %rbx,%rbx
        jne     0b
        pop     %rbx
        ret
        .size   calls,.-calls

        .section .tbss,"awT",@nobits
local:  .zero   64
