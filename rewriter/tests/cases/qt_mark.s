# Qt's mark for the linker asks for a place in a GOT. Nothing reads it, so it is left out.
        .globl  f
        .type   f,@function
f:      ret
        .section .qtversion,"a",@progbits
        .quad   qt_version_tag@GOT
        .section .note.GNU-stack,"",@progbits
