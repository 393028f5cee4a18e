# A landing pad for a range without calls, as GNAT leaves it. Its cold part is never reached, has
# calls with a landing pad, and begins in the frame of its function.
        .globl  filled
        .type   filled,@function
filled:
        .cfi_startproc
        .cfi_personality 0x9b,DW.ref.__gnat_personality_v0
        .cfi_lsda 0x1b,.Lfirst
        push    %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset 3,-16
        movq    $0,(%rdi)
        .cfi_remember_state
        pop     %rbx
        .cfi_def_cfa_offset 8
        ret
.Lpad:  .cfi_restore_state
        mov     %rax,%rbx
        mov     %rdx,%rax
        jmp     filled.cold
        .cfi_endproc
        .size   filled,.-filled
        .section .text.unlikely,"ax",@progbits
        .type   filled.cold,@function
filled.cold:
        .cfi_startproc
        .cfi_personality 0x9b,DW.ref.__gnat_personality_v0
        .cfi_lsda 0x1b,.Lsecond
        .cfi_def_cfa_offset 16
        .cfi_offset 3,-16
        sub     $1,%rax
        mov     %rbx,%rdi
        jne     1f
.Lbegin:
        call    handle
.Lend:
1:      call    _Unwind_Resume
.Lcold: mov     %rax,%rdi
        call    _Unwind_Resume
        .cfi_endproc
        .size   filled.cold,.-filled.cold
        .section .gcc_except_table,"a",@progbits
.Lfirst:
        .byte   0xff,0xff,1
        .uleb128 2f-1f
1:      .uleb128 1,6,.Lpad-filled,0
2:
.Lsecond:
        .byte   0xff,0xff,1
        .uleb128 2f-1f
1:      .uleb128 .Lbegin-filled.cold,.Lend-.Lbegin,.Lcold-filled.cold,0
2:
        .section .data.rel.local.DW.ref.__gnat_personality_v0,"awG",@progbits,DW.ref.__gnat_personality_v0,comdat
        .hidden DW.ref.__gnat_personality_v0
        .weak   DW.ref.__gnat_personality_v0
        .type   DW.ref.__gnat_personality_v0,@object
        .size   DW.ref.__gnat_personality_v0,8
        .balign 8
DW.ref.__gnat_personality_v0:
        .quad   __gnat_personality_v0
        .section .note.GNU-stack,"",@progbits
