        .globl  run
        .type   run, @function
run:    push    %rbx
        mov     %rdi, %rbx
        call    store
        lea     store(%rip), %rax
        call    *%rax
        pop     %rbx
        ret
        .size   run, . - run
        .globl  store
        .type   store, @function
store:  movq    $1, (%rdi)
        mov     $4, %ecx
        rep stosb
        ret
        .size   store, . - store
        .type   keeper, @function
keeper: push    %r15
        mov     %rdi, %r15
        mov     (%r15), %rax
        pop     %r15
        ret
        .size   keeper, . - keeper
        .section .note.GNU-stack,"",@progbits
