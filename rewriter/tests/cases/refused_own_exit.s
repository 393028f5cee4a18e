# The object's own functions have the names of functions that never return, and they return. So the
# code after their calls has another stack than its own.
        .globl  checked, checked_weak, checked_static, exit
        .weak   abort
        .type   exit,@function
exit:   ret
        .size   exit,.-exit
        .type   abort,@function
abort:  ret
        .size   abort,.-abort
        .type   _exit,@function
_exit:  ret
        .size   _exit,.-_exit
        .macro  checks name callee
        .type   \name,@function
\name:
        push    %rbp
        mov     %rsp,%rbp
        sub     $48,%rsp
        mov     %rsp,-32(%rbp)
        test    %rdi,%rdi
        je      1f
        mov     %rsi,-32(%rbp)
        call    \callee
1:      mov     -32(%rbp),%rsp
        add     $48,%rsp
        pop     %rbp
        ret
        .size   \name,.-\name
        .endm
        checks  checked exit
        checks  checked_weak abort
        checks  checked_static _exit
        .section .note.GNU-stack,"",@progbits
