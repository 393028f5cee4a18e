# A local function that only jumps reach is one of its own, as in brotli. So r15 has a slot in its
# frame, although the function that jumps there saves the same register elsewhere. The cold part is
# a part of its function.
        .globl  choose
        .type   choose,@function
choose:
        push    %r15
        mov     %rdi,%r15
        call    outside
        test    %r15,%r15
        pop     %r15
        je      second
        jmp     first
        .size   choose,.-choose
        .type   first,@function
first:  push    %rbx
        push    %rbp
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        mov     %rdi,%r15
        call    outside
        lea     (%rax,%rbx),%rbx
        lea     (%rax,%rbp),%rbp
        lea     (%rax,%r12),%r12
        lea     (%rax,%r13),%r13
        lea     (%rax,%r14),%r14
        test    %rax,%rax
        je      first.cold
        add     %r15,%rax
.Lend:  pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbp
        pop     %rbx
        ret
        .size   first,.-first
        .type   second,@function
second: mov     %edi,%eax
        ret
        .size   second,.-second
        .section .text.unlikely,"ax",@progbits
        .type   first.cold,@function
first.cold:
        mov     $1,%eax
        jmp     .Lend
        .size   first.cold,.-first.cold
        .section .note.GNU-stack,"",@progbits
