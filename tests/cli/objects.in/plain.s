        .globl  put
        .type   put, @function
put:    push    %rbx
        mov     %rdi, %rbx
        mov     %rsi, 8(%rbx)
        mov     %rbx, %rax
        pop     %rbx
        ret
        .size   put, . - put
        .section .note.GNU-stack,"",@progbits
