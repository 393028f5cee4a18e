# `rounds` returns values in ecx and in the carry flag, beside eax, as hand-written functions of one
# object do. So ecx is not free where r15's home is loaded before its end. Its tail call returns to
# the original caller.
        .globl  caller
        .type   caller,@function
caller: push    %r15
        mov     %rdi,%r15
        mov     (%rdi),%eax
        mov     4(%rdi),%ecx
        call    first
        mov     %eax,(%rsi)
        mov     %ecx,4(%rsi)
        mov     %r11,8(%rsi)
        pop     %r15
        ret
        .size   caller,.-caller
        .type   first,@function
first:  add     $16,%r15
        jmp     rounds
        .size   first,.-first
        .type   rounds,@function
rounds: mov     $1,%r11d
        mov     $2,%edx
        mov     $2,%esi
        xor     8(%r15),%ecx
        xor     12(%r15),%eax
        ret
        .size   rounds,.-rounds
        .section .note.GNU-stack,"",@progbits
