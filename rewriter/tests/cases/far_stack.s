# A frame that r15 need not follow would be far below it. A signal's handler uses the stack there,
# so r15 follows. A small frame of such code has no adjustment.
        .text
        .globl  far
        .type   far,@function
far:    sub     $4000,%rsp
        mov     %rdi,3992(%rsp)
        mov     %rsi,(%rsp)
        mov     3992(%rsp),%rax
        add     (%rsp),%rax
        add     $4000,%rsp
        ret
        .size   far,.-far
        .globl  near
        .type   near,@function
near:   sub     $1000,%rsp
        mov     %rdi,(%rsp)
        mov     (%rsp),%rax
        add     $1000,%rsp
        ret
        .size   near,.-near
        .section .note.GNU-stack,"",@progbits
