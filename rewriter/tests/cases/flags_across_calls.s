# Functions of hand-written code that take flags from their callers, and pass them on.
        .text
        .type   take,@function
take:   adc     %rsi,%rdi
        ret
        .size   take,.-take
        .type   keep,@function
keep:   mov     %rdi,(%rsi)
        ret
        .size   keep,.-keep
# The carry is live at the fill and the copies.
        .globl  f
        .type   f,@function
f:      push    %rbx
        cmp     %rdx,%rsi
        rep movsb
        call    take
        pop     %rbx
        ret
        .size   f,.-f
        .globl  g
        .type   g,@function
g:      sub     $8,%rsp
        cmp     %rdx,%rdi
        rep stosb
        call    keep
        jc      1f
        call    outside@PLT
1:      add     $8,%rsp
        ret
        .size   g,.-g
# Nothing needs the flags of an adjustment.
        .type   leaf,@function
leaf:   mov     %rdi,(%rsi)
        ret
        .size   leaf,.-leaf
        .globl  h
        .type   h,@function
h:      sub     $8,%rsp
        call    leaf
        add     $8,%rsp
        ret
        .size   h,.-h
        .section .note.GNU-stack,"",@progbits
