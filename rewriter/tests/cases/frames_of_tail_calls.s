# Two functions with variable arrays. The second is reached only by the first one's jump, and both
# keep different things at one distance from their beginning: each has a frame of its own.
        .globl  f
        .type   f,@function
f:      push    %rbp
        mov     %rsp,%rbp
        sub     $32,%rsp
        mov     %rsi,-16(%rbp)
        and     $-16,%rdi
        sub     %rdi,%rsp
        mov     -16(%rbp),%rdi
        leave
        jmp     g
        .size   f,.-f
        .type   g,@function
g:      push    %rbp
        mov     %rsp,%rbp
        sub     $32,%rsp
        mov     %rsp,-16(%rbp)
        and     $-16,%rdi
        sub     %rdi,%rsp
        mov     %rdi,(%rsp)
        mov     -16(%rbp),%rsp
        mov     (%rsp),%rax
        leave
        ret
        .size   g,.-g
        .section .note.GNU-stack,"",@progbits
