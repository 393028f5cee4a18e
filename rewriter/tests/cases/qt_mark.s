# Qt's mark for the linker asks for a place in a GOT. Nothing reads it, so it is left out, and its
# group with it. The signature of the other group is a symbol of its own.
        .section .qtversion,"aG",@progbits,qt_version_tag,comdat
        .quad   qt_version_tag@GOT
        .section .text.D2,"axG",@progbits,D5,comdat
        .weak   D2
        .type   D2,@function
D2:     ret
        .text
        .globl  f
        .type   f,@function
f:      jmp     D2
        .section .note.GNU-stack,"",@progbits
