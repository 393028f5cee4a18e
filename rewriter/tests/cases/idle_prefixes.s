# Segment prefixes without effect are left out: those on registers, on addresses that are only
# computed, and those that 64-bit mode ignores.
    .text
    .globl f
    .type f, @function
f:
    .byte 0x65, 0x29, 0xc2          # sub %eax,%edx with gs
    .byte 0x64, 0x48, 0x8d, 0x47, 8 # lea %fs:8(%rdi),%rax
    .byte 0x3e, 0x89, 0x07          # mov %eax,%ds:(%rdi)
    ret
    .size f, .-f
