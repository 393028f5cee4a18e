# A frame that begins with a loop over its pages, as gcc's -fstack-clash-protection makes them. The
# loop ends where the stack pointer equals another register.
        .globl  probed
        .type   probed,@function
probed:
        push    %rbx
        lea     -16384(%rsp),%r11
1:      sub     $4096,%rsp
        orq     $0,(%rsp)
        cmp     %r11,%rsp
        jne     1b
        sub     $32,%rsp
        mov     %rdi,%rbx
        lea     8(%rsp),%rdi
        call    fill
        mov     8(%rsp,%rbx,8),%rax
        add     $16416,%rsp
        pop     %rbx
        ret
        .size   probed,.-probed
        .section .note.GNU-stack,"",@progbits
