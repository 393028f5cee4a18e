# A comparison with a count that is no zero sets all flags, so the function takes none from its
# callers.
        .section .rodata
word:   .string "LC_MESSAGES"
        .text
        .type same,@function
same:   mov %rdi,%rdx
        mov $12,%ecx
        lea word(%rip),%rdi
        mov %rdx,%rsi
        repz cmpsb
        seta %al
        sbb $0,%al
        ret
        .size same,.-same
        .globl f
        .type f,@function
f:      sub $8,%rsp
        mov %rsi,%rdi
        call same
        add $8,%rsp
        ret
        .size f,.-f
