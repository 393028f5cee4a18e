# clang emits no code for functions that are never called. A virtual table, a `lea` and a call may
# still name them: these lead to a trap.
        .section .text.last,"ax",@progbits
        .type last,@function
last:
        .size last,.-last
        .text
        .globl takes
        .type takes,@function
takes:
        lea local(%rip),%rax
        lea other(%rip),%rcx
        call local
        ret
        .size takes,.-takes
        .globl other
        .type other,@function
other:
        .type local,@function
local:
        .section .data.rel.ro,"aw",@progbits
        .quad .text.last
        .quad last
        .quad local
        .quad other
