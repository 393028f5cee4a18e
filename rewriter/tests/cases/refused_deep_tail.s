# Functions that jump to another one with something on the stack. The other one would return to the
# word there.
        .text
        .globl  direct
        .type   direct,@function
direct: sub     $8,%rsp
        jmp     outside@PLT
        .size   direct,.-direct
        .globl  local
        .type   local,@function
local:  push    %rcx
        jmp     direct
        .size   local,.-local
        .globl  branch
        .type   branch,@function
branch: push    %rbx
        test    %edi,%edi
        je      outside@PLT
        jne     local
        pop     %rbx
        ret
        .size   branch,.-branch
        .globl  pointer
        .type   pointer,@function
pointer:
        push    %rcx
        jmp     *%rax
        .size   pointer,.-pointer
        .globl  memory
        .type   memory,@function
memory: sub     $40,%rsp
        jmp     *8(%rdi)
        .size   memory,.-memory
        .globl  got
        .type   got,@function
got:    push    %rcx
        jmp     *outside@GOTPCREL(%rip)
        .size   got,.-got
        .section .note.GNU-stack,"",@progbits
