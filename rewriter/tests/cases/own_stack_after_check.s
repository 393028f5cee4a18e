# A compiler takes arguments off the stack by the register that points to an array at the frame's
# end. The code before that calls a function that never returns, where the register is not set.
        .globl  checked
        .type   checked,@function
checked:
        push    %r14
        sub     $24,%rsp
        mov     %fs:40,%rax
        mov     %rax,8(%rsp)
        test    %edi,%edi
        je      1f
        mov     %rsp,%r14
        mov     %r14,%rdi
        call    fill
        test    %eax,%eax
        js      3f
1:      xor     %eax,%eax
2:      mov     8(%rsp),%rdx
        sub     %fs:40,%rdx
        jne     4f
        add     $24,%rsp
        pop     %r14
        ret
4:      call    __stack_chk_fail@PLT
3:      push    %rax
        push    $7
        call    report
        mov     %r14,%rsp
        or      $-1,%eax
        jmp     2b
        .size   checked,.-checked
        .section .note.GNU-stack,"",@progbits
