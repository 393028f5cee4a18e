# A compiler joined the jumps of two dispatches. They lead to the labels of the table that was read,
# and not to those of the switch, which finds a value in rsi.
        .globl  f
        .type   f,@function
f:      push    %rbx
        mov     %rdi,%rbx
        mov     (%rbx),%eax
        mov     operations(,%rax,8),%rax
1:      jmp     *%rax
.La:    mov     4(%rbx),%edx
        cmp     $1,%edx
        ja      .Lb
        mov     8(%rbx),%rsi
        jmp     *ways(,%rdx,8)
.Lb:    mov     16(%rbx),%ecx
        call    count
        mov     16(%rbx),%eax
        mov     operations(,%rax,8),%rax
        jmp     1b
.Lc:    mov     (%rsi),%eax
        pop     %rbx
        ret
.Ld:    pop     %rbx
        ret
        .size   f,.-f
        .type   count,@function
count:  mov     (%rcx),%rsi
        mov     (%rsi),%eax
        cmpl    $9,words(,%rcx,8)
        je      1f
        inc     %eax
1:      ret
        .size   count,.-count
        .section .rodata
        .balign 8
ways:   .quad   .Lc, .Ld
operations:
        .quad   .La, .Lb, .Ld
        .bss
words:  .skip   64
        .section .note.GNU-stack,"",@progbits
