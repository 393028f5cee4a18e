# r15 is a result and an argument of functions that other objects see.
        .globl  gives
        .type   gives,@function
gives:  lea     1(%rdi),%r15
        ret
        .size   gives,.-gives
        .globl  takes
        .type   takes,@function
takes:  lea     (%r15,%rdi),%rax
        ret
        .size   takes,.-takes
        .section .note.GNU-stack,"",@progbits
