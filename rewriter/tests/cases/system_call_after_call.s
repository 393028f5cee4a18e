# A function that makes a system call itself leaves in the registers that it does not take what a
# callee left there. The new code of `flip` has something else in rsi.
        .type   flip,@function
flip:   mov     8(%rdi),%rsi
        mov     16(%rdi),%rdx
        add     %rdx,%rsi
        mov     %rsi,8(%rdi)
        mov     $7,%eax
        lock btcq %rax,(%rdi)
        xor     %ecx,%ecx
        xor     %eax,%eax
        ret
        .size   flip,.-flip
# close(fd)
        .globl  drop
        .type   drop,@function
drop:   push    %rbx
        mov     %edi,%ebx
        mov     %rsi,%rdi
        call    flip
        mov     %ebx,%edi
        mov     $3,%eax
        syscall
        pop     %rbx
        ret
        .size   drop,.-drop
# futex(word, FUTEX_WAKE_PRIVATE, 1)
        .globl  wake
        .type   wake,@function
wake:   push    %rbx
        mov     %rdi,%rbx
        mov     %rsi,%rdi
        call    flip
        mov     %rbx,%rdi
        mov     $129,%esi
        mov     $1,%edx
        mov     $202,%eax
        syscall
        pop     %rbx
        ret
        .size   wake,.-wake
