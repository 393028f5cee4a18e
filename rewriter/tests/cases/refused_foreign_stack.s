# Another stack: loaded through an argument, loaded from a place of the own stack that the function
# did not fill, and kept across a call that may change it. `hop` and `restore` have jumps like those
# of __builtin_longjmp, but `hop` comes back to itself and `restore` restores preserved registers.
        .globl  switch, unfilled, lost, hop, restore
        .type   switch,@function
switch: push    %rbx
        mov     %rsp,(%rdi)
        mov     (%rsi),%rsp
        pop     %rbx
        ret
        .size   switch,.-switch
        .type   unfilled,@function
unfilled:
        mov     %rsp,%rax
        sub     $0x220,%rsp
        and     $-1024,%rsp
        mov     %rax,0x58(%rsp)
        lea     (%rsp),%rbx
        mov     0x60(%rbx),%rsi
        lea     (%rsi),%rsp
        ret
        .size   unfilled,.-unfilled
        .type   lost,@function
lost:   mov     %rsp,%r11
        and     $-16,%rsp
        call    changes
        mov     %r11,%rsp
        ret
        .size   lost,.-lost
        .type   changes,@function
changes:
        mov     %rdi,%r11
        ret
        .size   changes,.-changes
        .type   hop,@function
hop:    push    %rbp
        lea     1f(%rip),%rax
        mov     %rax,8(%rdi)
        mov     %rsp,(%rdi)
        mov     (%rsi),%rsp
        mov     16(%rsi),%rbp
        jmp     *8(%rsi)
1:      pop     %rbp
        ret
        .size   hop,.-hop
        .type   restore,@function
restore:
        mov     (%rdi),%rbx
        mov     8(%rdi),%rbp
        mov     16(%rdi),%r12
        mov     24(%rdi),%rsp
        jmp     *32(%rdi)
        .size   restore,.-restore
        .section .note.GNU-stack,"",@progbits
