# mode: full
# Code for a fixed place below 2 GiB, with addresses in displacements and immediates of 32 bits.
        .globl  f
        .type   f,@function
f:      push    %r15
        mov     table(,%rdi,8),%rax
        mov     table+16(%rdi),%ecx
        mov     table(%rdi,%rsi,4),%edx
        movzbl  bytes(%rdi),%edi
        add     table(,%rsi,8),%rax
        mov     %rax,table(,%rdx,8)
        lock incl table+8(,%rdx,4)
        movups  table(%rsi),%xmm0
        lea     table(,%rsi,8),%rsi
        mov     table,%r8
        cmpb    $7,bytes(%rsi)
        movzbl  bytes(%eax,%edi,2),%edi
        mov     bytes(%r9d),%r10b
        mov     $table+8,%edi
        mov     $table,%r15
        mov     $f,%esi
        mov     $maybe,%edx
        mov     $maybe+4,%ecx
        cmp     $table,%rbx
        je      1f
        cmpq    $table,8(%rdi)
        movq    $f,table(,%rbx,8)
        add     $table,%r9
        push    $table
        call    g
        add     $8,%rsp
1:      pop     %r15
        ret
        .size   f,.-f
        .type   g,@function
g:      cmp     $2,%rdi
        ja      1f
        jmp     *switch(,%rdi,8)
1:      mov     $1,%eax
        ret
2:      mov     $2,%eax
        ret
        .size   g,.-g
        .weak   maybe
        .section .rodata
switch: .quad   1b,2b,1b
bytes:  .byte   1,2,3
        .data
table:  .quad   1,2,3
        .section .note.GNU-stack,"",@progbits
