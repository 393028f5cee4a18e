# The cold part of `one` is empty, and that of `two` begins at the same place. A branch of `one`
# that is never taken leads there, with another stack than that of `two`.
        .globl  one
        .type   one,@function
one:    cmp     $2,%edi
        ja      one.cold
        lea     1(%rdi),%eax
        ret
        .size   one,.-one
        .globl  two
        .type   two,@function
two:    sub     $24,%rsp
        test    %edi,%edi
        je      two.cold
1:      add     $24,%rsp
        ret
        .size   two,.-two
        .section .text.unlikely,"ax",@progbits
        .type   one.cold,@function
one.cold:
        .size   one.cold,.-one.cold
        .type   two.cold,@function
two.cold:
        call    log
        jmp     1b
        .size   two.cold,.-two.cold
        .section .note.GNU-stack,"",@progbits
