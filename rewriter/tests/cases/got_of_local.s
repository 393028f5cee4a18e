# Entries of the GOT for local names that do not begin their section, as OCaml has them.
        .globl  linked
        .type   linked,@function
linked: mov     roots@GOTPCREL(%rip),%rax
        mov     first@GOTPCREL(%rip),%rbx
        mov     %rbx,(%rax)
        cmp     second@GOTPCREL(%rip),%rdi
        sete    %al
        ret
        .size   linked,.-linked
        .data
        .quad   7
roots:  .quad   0
first:  .quad   1
second: .quad   2
        .section .note.GNU-stack,"",@progbits
