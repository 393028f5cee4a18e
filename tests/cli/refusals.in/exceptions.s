        .globl  f
        .type   f, @function
f:      .cfi_startproc
        .cfi_personality 0, p
        .cfi_lsda 0x1b, .Ltable
        push    %rbx
        .cfi_adjust_cfa_offset 8
        call    g@PLT
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size   f, . - f
        .section .gcc_except_table,"a",@progbits
.Ltable:
        .byte   0x1b
        .long   f - .
        .byte   0xff, 0x01, 0x00
        .section .note.GNU-stack,"",@progbits
