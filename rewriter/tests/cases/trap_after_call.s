# Code that other paths reach follows calls that are not to return: a trap stands between them, in
# case they do. None stands where the code after a call is right for both: it is the call's only, or
# the function does nothing but go on in the next one. The object's own `exit` is like any other.
        .globl  ends, straight, framed, empty, next, by_pointer, cold, checked, own, exit
        .type   ends,@function
ends:   push    %rbx
        test    %edi,%edi
        jne     1f
        pop     %rbx
        ret
1:      call    unknown
        .size   ends,.-ends
        .balign 16
        .type   straight,@function
straight:
        push    %rbx
        mov     %rdi,%rbx
        call    _exit
        mov     %rbx,%rax
        pop     %rbx
        ret
        .size   straight,.-straight
        .type   framed,@function
framed: push    %rbp
        mov     %rsp,%rbp
        test    %edi,%edi
        je      1f
        push    %rdi
        push    %rdi
        call    unknown
1:      leave
        ret
        .size   framed,.-framed
        .type   empty,@function
empty:  call    unknown
        .size   empty,.-empty
        .type   next,@function
next:   xor     %eax,%eax
        ret
        .size   next,.-next
        .type   by_pointer,@function
by_pointer:
        push    %rax
        call    *(%rdi)
        .size   by_pointer,.-by_pointer
        .type   checked,@function
checked:
        push    %rbx
        mov     %rdi,%rbx
        test    %edi,%edi
        jns     1f
        call    __assert_fail
1:      mov     (%rbx),%eax
        pop     %rbx
        ret
        .size   checked,.-checked
        .type   own,@function
own:    push    %rbx
        test    %edi,%edi
        js      1f
        call    exit
1:      pop     %rbx
        ret
        .size   own,.-own
        .type   exit,@function
exit:   mov     %edi,%eax
        ret
        .size   exit,.-exit
        .type   cold,@function
cold:   test    %edi,%edi
        jne     cold.cold
        jmp     next
        .size   cold,.-cold
        .section .text.unlikely,"ax",@progbits
        .type   raises.cold,@function
raises.cold:
        push    %rax
        call    unknown
        .size   raises.cold,.-raises.cold
        .type   cold.cold,@function
cold.cold:
        call    unknown
        .size   cold.cold,.-cold.cold
        .section .note.GNU-stack,"",@progbits
