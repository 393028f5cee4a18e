# Tables between functions, as in hand-written assembly. They are read through a lea, through a
# register computed from one, and by a rip-relative operand. There are also a text that nothing
# names and a pointer to code.
.globl f
.type f,@function
f:  lea table(%rip),%rcx
    lea 4(%rcx),%rdx
    call g
    mov (%rdx,%rdi,4),%eax
    add one(%rip),%eax
    movdqa mask(%rip),%xmm0
    jmp 1f
.align 16
mask: .quad 0x0607060606060606, -1
table: .long 0x06060606, 2, 3, 4
one: .long 1
.quad f
1:  ret
.size f,.-f
.asciz "a text, for people"
.align 16
.type g,@function
g:  ret
.size g,.-g
