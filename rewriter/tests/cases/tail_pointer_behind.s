# A caller reads r11 after a call of a function that may end in a tail call through a pointer. Any
# callee may write r11, so its value there means nothing.
        .text
        .globl outer
        .type outer,@function
outer:
        sub $24,%rsp
        mov $3,%r11d
        call inner
        mov %r11,8(%rsp)
        xor %eax,%eax
        add $24,%rsp
        ret
        .size outer,.-outer
        .type inner,@function
inner:
        test %rsi,%rsi
        je 1f
        mov 16(%rdi),%rdx
        mov 64(%rdi),%rdi
        jmp *%rdx
1:      ret
        .size inner,.-inner
