# The thread locals of -mtls-dialect=gnu2.
        .globl  f
        .type   f,@function
f:      lea     x@tlsdesc(%rip),%rax
        call    *x@tlscall(%rax)
        ret
        .size   f,.-f
        .section .note.GNU-stack,"",@progbits
