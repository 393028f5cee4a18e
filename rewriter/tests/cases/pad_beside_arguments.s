# Two calls with one landing pad, and between them a call that throws nothing, with an argument on
# the stack. Compilers write one range for all three. The frame at the pad tells which calls throw.
        .globl  caught
        .type   caught,@function
caught:
        .cfi_startproc
        .cfi_personality 0x9b,DW.ref.__gxx_personality_v0
        .cfi_lsda 0x1b,.Ltable
        push    %r15
        .cfi_def_cfa_offset 16
        .cfi_offset 15,-16
        sub     $16,%rsp
        .cfi_def_cfa_offset 32
        mov     %rdi,%r15
.Lfirst:
        call    work
        mov     %r15,%rdi
        sub     $8,%rsp
        .cfi_adjust_cfa_offset 8
        push    $7
        .cfi_adjust_cfa_offset 8
        call    print
        add     $16,%rsp
        .cfi_adjust_cfa_offset -16
        mov     %r15,%rdi
        call    work
.Llast:
.Lend:  add     $16,%rsp
        .cfi_remember_state
        .cfi_def_cfa_offset 16
        pop     %r15
        .cfi_def_cfa_offset 8
        ret
.Lpad:  .cfi_restore_state
        mov     %rax,%rdi
        call    __cxa_begin_catch
        mov     %r15,8(%rsp)
        call    __cxa_end_catch
        jmp     .Lend
        .cfi_endproc
        .size   caught,.-caught
        .section .gcc_except_table,"a",@progbits
.Ltable:
        .byte   0xff                    # landing pads count from the function
        .byte   0x9b                    # types: indirect, relative, 4 bytes
        .uleb128 .Ltypes-.Llengths
.Llengths:
        .byte   1                       # call sites: uleb128
        .uleb128 .Lactions-.Lsites
.Lsites:
        .uleb128 .Lfirst-caught
        .uleb128 .Llast-.Lfirst
        .uleb128 .Lpad-caught
        .uleb128 1
.Lactions:
        .byte   1,0                     # catch (...)
        .balign 4
        .long   0
.Ltypes:
        .section .data.rel.local.DW.ref.__gxx_personality_v0,"awG",@progbits,DW.ref.__gxx_personality_v0,comdat
        .hidden DW.ref.__gxx_personality_v0
        .weak   DW.ref.__gxx_personality_v0
        .type   DW.ref.__gxx_personality_v0,@object
        .size   DW.ref.__gxx_personality_v0,8
        .balign 8
DW.ref.__gxx_personality_v0:
        .quad   __gxx_personality_v0
        .section .note.GNU-stack,"",@progbits
