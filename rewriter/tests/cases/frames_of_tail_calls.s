# Two functions with realigned stacks. The second is reached only by the first one's jump, and both
# keep different things at one distance from their stacks' ends: each has a frame of its own.
        .globl  f
        .type   f,@function
f:      push    %rbp
        mov     %rsp,%rbp
        sub     $96,%rsp
        and     $-64,%rsp
        mov     %rsi,24(%rsp)
        mov     24(%rsp),%rdi
        leave
        jmp     g
        .size   f,.-f
        .type   g,@function
g:      mov     %rsp,%rax
        sub     $96,%rsp
        and     $-64,%rsp
        mov     %rax,24(%rsp)
        mov     %rdi,(%rsp)
        mov     24(%rsp),%rsp
        ret
        .size   g,.-g
        .section .note.GNU-stack,"",@progbits
