# Indirect branches against speculation, by thunks and inline, for calls, jumps and returns.
        .globl  f
        .type   f,@function
f:      push    %rbx
        mov     (%rdi),%rax
        call    __x86_indirect_thunk_rax
        mov     8(%rdi),%r11
        jmp     3f
2:      call    1f
4:      pause
        lfence
        jmp     4b
1:      mov     %r11,(%rsp)
        ret
3:      call    2b
        pop     %rbx
        jmp     __x86_indirect_thunk_rax
        .size   f,.-f
        .globl  g
        .type   g,@function
g:      mov     $1,%eax
        jmp     __x86_return_thunk
        .size   g,.-g
        .section .text.__x86_indirect_thunk_rax,"axG",@progbits,__x86_indirect_thunk_rax,comdat
        .globl  __x86_indirect_thunk_rax
        .hidden __x86_indirect_thunk_rax
        .type   __x86_indirect_thunk_rax,@function
__x86_indirect_thunk_rax:
        call    1f
2:      pause
        lfence
        jmp     2b
        .p2align 4
1:      mov     %rax,(%rsp)
        ret
        .size   __x86_indirect_thunk_rax,.-__x86_indirect_thunk_rax
        .section .text.__x86_return_thunk,"axG",@progbits,__x86_return_thunk,comdat
        .globl  __x86_return_thunk
        .hidden __x86_return_thunk
        .type   __x86_return_thunk,@function
__x86_return_thunk:
        call    1f
2:      pause
        lfence
        jmp     2b
1:      lea     8(%rsp),%rsp
        ret
        .size   __x86_return_thunk,.-__x86_return_thunk
        .section .note.GNU-stack,"",@progbits
