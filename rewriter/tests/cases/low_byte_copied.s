# A truth value in the low byte of r11. The rest was overwritten for the jump at the end of `frees`,
# and holds nothing that anybody put there. Copies of r11 go to registers that had values before.
# The last call takes nothing there.
.type frees,@function
frees:
    test %rdi,%rdi
    jne 1f
    ret
1:  jmp *g_pointer(%rip)
.size frees,.-frees
.globl f
.type f,@function
f:
    push %rbx
    mov %rdi,%rbx
    call frees
    mov $1,%r8d
    mov $1,%r9d
    cmp $1,%ebx
    seta %r11b
    je 1f
    mov %r11d,%r8d
    or %r11d,%r9d
    test %r8b,%r9b
    jne 1f
    call g
1:  pop %rbx
    ret
.size f,.-f
