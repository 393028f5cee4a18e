# pcc gives static functions no type and no size. A call in one is not the end of the function
# before it.
        .text
        .globl  first
        .type   first,@function
first:  mov     %edi,%eax
        ret
        .size   first,.-first
        .p2align 2
second: push    %rbp
        mov     %rsp,%rbp
        sub     $16,%rsp
        test    %edi,%edi
        je      1f
        push    %rax
        push    %rax
        call    outside@PLT
        add     $16,%rsp
1:      mov     %edi,%eax
        leave
        ret
        .p2align 2
third:  push    %rbp
        mov     %rsp,%rbp
        sub     $48,%rsp
        mov     %rbx,-32(%rbp)
        mov     %edi,%ebx
        call    second
        cmp     $0,%eax
        je      1f
        mov     $1,%edi
        call    first
1:      mov     %ebx,%eax
        mov     -32(%rbp),%rbx
        leave
        ret
        .globl  last
        .type   last,@function
last:   sub     $8,%rsp
        call    third
        add     $8,%rsp
        ret
        .size   last,.-last
        .section .note.GNU-stack,"",@progbits
