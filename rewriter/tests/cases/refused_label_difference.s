# The difference of two labels of one section. The assembler leaves no relocation that would show
# it.
.globl f
.type f,@function
f:
    lea .Lone(%rip),%rax
    movslq distance(%rip),%rcx
    add %rcx,%rax
    jmp *%rax
.Lone:
    mov $1,%eax
    ret
.Ltwo:
    mov $2,%eax
    ret
.size f,.-f
.section .rodata
distance: .long .Ltwo-.Lone
