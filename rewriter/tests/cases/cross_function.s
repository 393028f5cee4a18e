# A fall-through into another function, a jump into its middle, and a cold part that jumps back.
.globl f
.type f,@function
f:
    push %rbx
    mov %edi,%ebx
    test %edi,%edi
    je f.cold
.Lback:
    mov %ebx,%eax
    pop %rbx
    ret
.size f,.-f
.globl g
.type g,@function
g:  mov $1,%edi
.size g,.-g
.globl h
.type h,@function
h:  inc %edi
.Lmid:
    jmp other
.size h,.-h
.globl i
.type i,@function
i:  mov $3,%edi
    jmp .Lmid
.size i,.-i
.section .text.unlikely,"ax"
.type f.cold,@function
f.cold:
    call abort_like
    jmp .Lback
.size f.cold,.-f.cold
