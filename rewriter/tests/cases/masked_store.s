# Stores of the bytes that a mask selects.
        .globl  f
        .type   f,@function
f:      maskmovdqu %xmm1,%xmm0
        mov     %rdi,%rax
        ret
        .size   f,.-f
# Flags are live, and all registers that a call may overwrite.
        .globl  g
        .type   g,@function
g:      cmp     %rsi,%rdx
        maskmovdqu %xmm9,%xmm15
        lea     (%rax,%rcx),%rax
        lea     (%rax,%rdx),%rax
        lea     (%rax,%rsi),%rax
        lea     (%rax,%r8),%rax
        lea     (%rax,%r9),%rax
        lea     (%rax,%r10),%rax
        lea     (%rax,%r11),%rax
        cmovl   %rdi,%rax
        ret
        .size   g,.-g
        .globl  h
        .type   h,@function
h:      vmaskmovdqu %xmm2,%xmm3
        ret
        .size   h,.-h
# A label follows, with another place of the data stack pointer.
        .globl  before_label
        .type   before_label,@function
before_label:
        sub     $8,%rsp
        maskmovdqu %xmm1,%xmm0
1:      call    outside@PLT
        jmp     1b
        .size   before_label,.-before_label
