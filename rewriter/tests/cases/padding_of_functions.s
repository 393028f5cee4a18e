# Functions start at multiples of 16 if that takes at most 7 bytes. Loops lie in as few lines of 16
# bytes as their size allows, with nops before them if need be. Loops with a call have none.
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
1:      add     %edi,%eax               # a loop within one line
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
        .p2align 4
        .globl  fifth
        .type   fifth,@function
fifth:
        mov     $1,%eax
        .p2align 4
1:      add     %edi,%eax               # a loop that would lie in two lines
        imul    $100000,%eax,%eax
        dec     %edi
        jne     1b
        ret
        .size   fifth,.-fifth
        .p2align 4
        .globl  sixth
        .type   sixth,@function
sixth:
        mov     $1,%eax
        .p2align 4
1:      imul    $100000,%eax,%eax       # a loop of two lines, which would lie in three
        imul    $100001,%eax,%eax
        imul    $100002,%eax,%eax
        imul    $100003,%eax,%eax
        dec     %edi
        jne     1b
        ret
        .size   sixth,.-sixth
        .section .note.GNU-stack,"",@progbits
