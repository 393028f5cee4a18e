# Another stack: loaded through an argument, from a place of the own stack that the function did not
# fill, and kept across a call that may change it.
        .globl  switch, unfilled, lost
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
        .section .note.GNU-stack,"",@progbits
