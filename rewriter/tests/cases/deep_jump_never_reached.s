# clang's code after a call that throws: a jump to the end of the function, where another one
# begins. The pad catches the exception.
        .text
        .globl  f
        .type   f,@function
f:
        .cfi_startproc
        .cfi_personality 155, DW.ref.personality
        .cfi_lsda 27, .Ltable
        push    %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset 3, -16
.Lcall: call    __cxa_throw@PLT
.Lend:  jmp     g
.Lpad:  mov     %rax,%rdi
        call    outside@PLT
        pop     %rbx
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size   f,.-f
        .globl  g
        .type   g,@function
g:      lea     1(%rdi),%eax
        ret
        .size   g,.-g
        .section .gcc_except_table,"a",@progbits
.Ltable:
        .byte   0xff, 0xff, 1
        .uleb128 .Lsites_end-.Lsites
.Lsites:
        .uleb128 .Lcall-f
        .uleb128 .Lend-.Lcall
        .uleb128 .Lpad-f
        .uleb128 0
.Lsites_end:
        .hidden DW.ref.personality
        .weak   DW.ref.personality
        .section .data.rel.local.DW.ref.personality,"awG",@progbits,DW.ref.personality,comdat
        .align  8
        .type   DW.ref.personality, @object
DW.ref.personality:
        .quad   __gxx_personality_v0
        .size   DW.ref.personality, 8
        .section .note.GNU-stack,"",@progbits
