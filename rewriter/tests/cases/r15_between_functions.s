# r15 is an argument of a function that only this object calls, so the whole object keeps r15 at one
# place.
        .globl  f
        .type   f,@function
f:      push    %r15
        mov     %rdi,%r15
        call    inner
        pop     %r15
        ret
        .size   f,.-f
        .type   inner,@function
inner:  lea     (%r15,%rsi),%rax
        ret
        .size   inner,.-inner
        .section .note.GNU-stack,"",@progbits
