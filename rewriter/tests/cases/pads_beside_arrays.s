# Flags are live across the first switch. Its labels get landing pads, and so do those of the second
# switch, because one function has one kind of jumps. The third jumps by an array of slots, so its
# labels need none.
.globl f
.type f,@function
f:
    cmp $1,%edi
    ja 9f
    mov %edi,%edi
    lea .Lfirst(%rip),%rdx
    movslq (%rdx,%rdi,4),%rax
    add %rdx,%rax
    test %esi,%esi
    jmp *%rax
1:  je 9f
    cmp $1,%edi
    ja 9f
    mov %edi,%edi
    lea .Lsecond(%rip),%rdx
    movslq (%rdx,%rdi,4),%rax
    add %rdx,%rax
    jmp *%rax
2:  cmp $1,%edi
    ja 9f
    mov %edi,%edi
    lea .Lthird(%rip),%rdx
    movslq (%rdx,%rdi,4),%rax
    add %rdx,%rax
    jmp *%rax
9:  ret
3:  inc %rax
    ret
4:  mov $4,%eax
    ret
5:  mov $5,%eax
    ret
.size f,.-f
.section .rodata
.align 4
.Lfirst:
    .long 1b-.Lfirst
    .long 2b-.Lfirst
.Lsecond:
    .long 2b-.Lsecond
    .long 3b-.Lsecond
.Lthird:
    .long 4b-.Lthird
    .long 5b-.Lthird
.section .note.GNU-stack,"",@progbits
