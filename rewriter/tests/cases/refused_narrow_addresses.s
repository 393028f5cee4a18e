# The program keeps addresses in 32 bits, but addresses of a window need more.
        .globl  f
        .type   f,@function
f:      lea     table(,%rsi,8),%esi
        movl    $table,8(%rdi)
        cmp     $table,%eax
        ret
        .size   f,.-f
        .data
table:  .quad   1,2,3
        .section .note.GNU-stack,"",@progbits
