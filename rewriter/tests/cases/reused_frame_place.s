# The place of the old stack pointer serves another variable afterwards. The last store before the
# load counts.
        .globl  f
        .type   f,@function
f:      push    %rbp
        mov     %rsp,%rbp
        sub     $32,%rsp
        mov     %rsp,-16(%rbp)
        and     $-16,%rdi
        sub     %rdi,%rsp
        mov     %rsi,(%rsp)
        mov     -16(%rbp),%rsp
        mov     %rsi,-16(%rbp)
        mov     -16(%rbp),%rax
        add     $32,%rsp
        pop     %rbp
        ret
        .size   f,.-f
        .section .note.GNU-stack,"",@progbits
