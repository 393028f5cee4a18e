# mode: match
# Atomic bit tests whose operand moves with a register.
        .globl  f
        .type   f,@function
f:      lock btsl %esi,(%rdi)
        setb    %al
        lock btrq %rax,8(%rdi,%rcx,8)
        jc      1f
        lock btcq %rdx,word(%rip)
        sbb     %eax,%eax
        ret
1:      lock btsq %rcx,(%rsi)
        ret
        .size   f,.-f
        .local  word
        .comm   word,16,8
        .section .note.GNU-stack,"",@progbits
