# mode: full
# Functions share long ends. In mode full three loads are long enough. Two are not, and an end of
# other registers is another one.
        .text
        .globl  first
        .type   first,@function
first:  push    %r12
        push    %rbp
        push    %rbx
        call    other
        pop     %rbx
        pop     %rbp
        pop     %r12
        ret
        .size   first,.-first
        .globl  second
        .type   second,@function
second: push    %r12
        push    %rbp
        push    %rbx
        mov     %rdi,%rbx
        call    other
        add     %rbx,%rax
        pop     %rbx
        pop     %rbp
        pop     %r12
        ret
        .size   second,.-second
        .globl  third
        .type   third,@function
third:  push    %r13
        push    %r12
        push    %rbp
        push    %rbx
        call    other
        pop     %rbx
        pop     %rbp
        pop     %r12
        pop     %r13
        ret
        .size   third,.-third
        .globl  short_one
        .type   short_one,@function
short_one:
        push    %rbp
        push    %rbx
        call    other
        pop     %rbx
        pop     %rbp
        ret
        .size   short_one,.-short_one
        .globl  short_two
        .type   short_two,@function
short_two:
        push    %rbp
        push    %rbx
        call    other
        pop     %rbx
        pop     %rbp
        ret
        .size   short_two,.-short_two
