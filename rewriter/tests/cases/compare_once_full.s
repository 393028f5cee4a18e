# mode: full
# Comparisons and scans that run once set the flags, whatever rcx is.
        .text
        .globl  f
        .type   f,@function
f:      cmpsq
        je      1f
        scasb
        setb    %al
1:      ret
        .size   f,.-f
        .section .note.GNU-stack,"",@progbits
