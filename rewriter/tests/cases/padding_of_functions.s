# Functions start at multiples of 16 if that takes at most 7 bytes. Loops with a call are not
# aligned.
        .globl  first
        .type   first,@function
first:                                  # ends 6 bytes before a multiple of 16
        lea     100(%rdi),%rax
        lea     100(%rsi,%rax),%rax
        ret
        .size   first,.-first
        .p2align 4
        .globl  second
        .type   second,@function
second:                                 # ends more than 7 bytes before one
        mov     %edi,%eax
        ret
        .size   second,.-second
        .p2align 4
        .globl  third
        .type   third,@function
third:
        xor     %eax,%eax
        .p2align 4
1:      add     %edi,%eax               # a loop
        dec     %edi
        jne     1b
        ret
        .size   third,.-third
        .p2align 4
        .globl  fourth
        .type   fourth,@function
fourth:
        push    %rbx
        mov     %edi,%ebx
        .p2align 4
1:      call    work                    # a loop that calls
        dec     %ebx
        jne     1b
        pop     %rbx
        ret
        .size   fourth,.-fourth
        .section .note.GNU-stack,"",@progbits
