# Flags are live across the switch jump, as in libjpeg. Landing pads restore them.
.globl f
.type f,@function
f:
    lea .Ltable(%rip),%rdx
    movslq (%rdx,%rdi,4),%rax
    add %rdx,%rax
    test %esi,%esi
    jmp *%rax
1:  je 9f
    mov $1,%eax
    ret
9:  xor %eax,%eax
    ret
.size f,.-f
.section .rodata
.align 4
.Ltable:
    .long 1b-.Ltable
    .long 9b-.Ltable
