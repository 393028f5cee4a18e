# A common block of the medium code model becomes an ordinary one, because windows are small.
        .largecomm big,0x100000,32
        .comm small,16,16
        .text
        .globl f
        .type f,@function
f:      mov big@GOTPCREL(%rip),%rax
        mov small@GOTPCREL(%rip),%rdx
        mov (%rdx),%ecx
        mov %ecx,(%rax)
        ret
        .size f,.-f
