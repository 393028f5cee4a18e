# Labels inside functions whose addresses are mere data, as of `&&here` in GNU C. Nothing jumps to
# them but their functions, which have something on the stack there.
        .text
        .globl  f
        .type   f,@function
f:      push    %rbx
        mov     %edi,%ebx
        sub     $64,%rsp
        lea     1f(%rip),%rax
        mov     %rax,place(%rip)
        test    %esi,%esi
        jne     1f
        xor     %edi,%edi
        call    outside@PLT
        jmp     2f
1:      mov     %rsp,%rdi
        call    outside@PLT
2:      dec     %ebx
        jns     1b
        movzbl  1(%rsp),%eax
        add     $64,%rsp
        pop     %rbx
        ret
        .size   f,.-f
# Control falls into it, and a pointer in data names it.
        .globl  g
        .type   g,@function
g:      push    %rbp
        mov     %rsp,%rbp
        sub     $32,%rsp
        mov     pointer(%rip),%rdi
        call    outside@PLT
3:      lea     -32(%rbp),%rdi
        call    outside@PLT
        leave
        ret
        .size   g,.-g
# Nothing is on the stack, so the label may be a function.
        .globl  h
        .type   h,@function
h:      lea     4f(%rip),%rax
        mov     %rax,place(%rip)
        test    %edi,%edi
        jne     4f
        mov     $1,%eax
        ret
4:      mov     $2,%eax
        ret
        .size   h,.-h
        .data
pointer:
        .quad   3b
        .local  place
        .comm   place,8,8
        .section .note.GNU-stack,"",@progbits
