# Bit tests of thread locals with an offset in a register.
        .text
        .globl  f
        .type   f,@function
f:      lock btcl %r8d,%fs:(%rax)
        setc    %al
        bts     %rcx,%fs:word@tpoff
        btr     %rcx,%fs:word@tpoff+8(%rdi,%rsi,8)
        bt      %edx,%fs:-64
        setc    %ah
        ret
        .size   f,.-f
# The offset in r11.
        .globl  g
        .type   g,@function
g:      btcl    %r11d,8(%rdi)
        lock btr %r11,(%rsi)
        bt      %r11,%fs:word@tpoff
        setc    %al
        ret
        .size   g,.-g
        .section .tbss,"awT",@nobits
        .globl  word
word:   .zero   64
        .section .note.GNU-stack,"",@progbits
