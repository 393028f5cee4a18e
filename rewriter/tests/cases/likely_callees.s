# Calls through rows of functions compare their target first: with those of an array of structures,
# and of the tables of classes, of which one has two bases. Other calls do not: where rows have too
# many functions, or none, where %al has a count, and where the target is in a register, on the
# stack or in a table that the call names.
        .macro  function name
        .text
        .globl  \name
        .type   \name,@function
\name:
        .endm
        .macro  local name
        .type   \name,@function
\name:  ret
        .endm

        # The second column of both arrays, and the first method of both bases.
        function second
        .cfi_startproc
        push    %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset 3,-16
        mov     (%rdi),%rax
        call    *8(%rax)
        mov     %eax,%ebx
        mov     %rbx,%rax
        pop     %rbx
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc

        # The first column, with too many functions.
        function first
        sub     $8,%rsp
        mov     (%rdi),%rax
        call    *(%rax)
        add     $8,%rsp
        ret

        # The third column. A register beside rax has the row.
        function third
        sub     $8,%rsp
        mov     8(%rdi),%rax
        mov     %rdi,%r11
        call    *16(%r11)
        add     $8,%rsp
        ret

        # A count of vector registers is passed.
        function counted
        sub     $8,%rsp
        mov     $1,%eax
        call    *16(%rdi)
        add     $8,%rsp
        ret

        # No row has a function here.
        function beyond
        sub     $8,%rsp
        call    *64(%rdi)
        add     $8,%rsp
        ret

        # These calls name no row.
        function others
        sub     $24,%rsp
        mov     16(%rdi),%rax
        mov     %rax,16(%rsp)
        call    *%rax
        call    *16(%rsp)
        call    *rows+16(%rip)
        add     $24,%rsp
        ret

        local   a0
        local   a1
        local   a2
        local   b0
        local   b2
        local   c0
        local   c1
        local   d0

        .section .data.rel.ro,"aw"
        # Two rows of three functions.
        .type   rows,@object
rows:   .quad   a0,a1,a2
        .quad   b0,a1,b2
        .size   rows,.-rows
        # A class with two bases: the second table follows two words that are no functions.
        .globl  _ZTV1C
        .type   _ZTV1C,@object
_ZTV1C: .quad   0,0,c0,c1
        .quad   -16,0,d0
        .size   _ZTV1C,.-_ZTV1C
