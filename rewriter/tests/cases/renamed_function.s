# objcopy gave the function another name, and its cold part kept the old one. The branch to the part
# is taken. No other function of that name exists.
        .globl  library_f
        .type   library_f,@function
library_f:
        cmp     $7,%edi
        ja      f.cold
        mov     $1,%eax
1:      ret
        .size   library_f,.-library_f
        .section .text.unlikely,"ax",@progbits
        .type   f.cold,@function
f.cold: xor     %eax,%eax
        jmp     1b
        .size   f.cold,.-f.cold
        .section .note.GNU-stack,"",@progbits
