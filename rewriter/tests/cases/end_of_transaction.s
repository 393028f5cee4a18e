# No transaction begins in a domain, so its end faults. In a budgeted text the code after it, which
# another path reaches, has a charge, and a trap before that.
        .globl  unlock
        .type   unlock,@function
unlock: mov     (%rdi),%eax
        test    %eax,%eax
        jne     2f
        xend
1:      xor     %eax,%eax
        ret
2:      xor     %eax,%eax
        xchg    %eax,(%rdi)
        cmp     $1,%eax
        jle     1b
        sub     $8,%rsp
        call    wake
        xor     %eax,%eax
        add     $8,%rsp
        ret
        .size   unlock,.-unlock
        .section .note.GNU-stack,"",@progbits
