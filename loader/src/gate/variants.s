# The variants of the gates, and the table of their addresses.

.macro GATES v, avx, fsgs
    .irp p,0,1,2,3
    GATE_DOMAIN \v, \fsgs, \p, 0, 0
    GATE_DOMAIN \v, \fsgs, \p, 0, 1
    GATE_DOMAIN \v, \fsgs, \p, 1, 0
    GATE_DOMAIN \v, \fsgs, \p, 1, 1
    .endr
    DOMAIN_ASIDE \v, \fsgs
    GATE_ENTER \v, \avx, \fsgs
    GATE_HOST \v, \avx, \fsgs

    .irp m,0,1,2,3,4,5,6,7,8,9,10
    ARGUMENTS \v, \avx, 0, \m
    ARGUMENTS \v, \avx, 1, \m
    ARGUMENTS \v, \avx, 2, \m
    ARGUMENTS \v, \avx, 3, \m
    ARGUMENTS \v, \avx, 4, \m
    ARGUMENTS \v, \avx, 5, \m
    ARGUMENTS \v, \avx, 6, \m
    .endr

#           name        rax rdx clear whole low
    RESULTS \v, \avx, any_leave,   1, 1, 0, 0, 0
    RESULTS \v, \avx, any_keep,    1, 1, 1, 1, 0
    RESULTS \v, \avx, any_all,     1, 1, 1, 0, 0
    RESULTS \v, \avx, void_leave,  0, 0, 0, 0, 0
    RESULTS \v, \avx, void_all,    0, 0, 1, 0, 0
    RESULTS \v, \avx, int_leave,   1, 0, 0, 0, 0
    RESULTS \v, \avx, int_all,     1, 0, 1, 0, 0
    RESULTS \v, \avx, float_leave, 0, 0, 0, 0, 0
    RESULTS \v, \avx, float_keep,  0, 0, 1, 0, 1
    RESULTS \v, \avx, host_keep,   1, 1, 1, 0, 2

# The addresses above, in the order of gate::Table.
    .section .data.rel.ro.sfi_gates,"aw",@progbits
    .p2align 3
    .globl  sfi_table_\v
    .hidden sfi_table_\v
sfi_table_\v:
    .quad   sfi_gate_000_\v, sfi_gate_001_\v, sfi_gate_010_\v, sfi_gate_011_\v
    .quad   sfi_gate_100_\v, sfi_gate_101_\v, sfi_gate_110_\v, sfi_gate_111_\v
    .quad   sfi_gate_200_\v, sfi_gate_201_\v, sfi_gate_210_\v, sfi_gate_211_\v
    .quad   sfi_gate_300_\v, sfi_gate_301_\v, sfi_gate_310_\v, sfi_gate_311_\v
    .quad   sfi_gate_host_\v
    .quad   sfi_enter_\v
    .quad   sfi_failed_\v
    .quad   sfi_enter_failed_\v
# For each kind of result: no vector register is cleared, all but the result, or all.
    .quad   sfi_results_any_leave_\v, sfi_results_any_keep_\v, sfi_results_any_all_\v
    .quad   sfi_results_void_leave_\v, sfi_results_void_all_\v, sfi_results_void_all_\v
    .quad   sfi_results_int_leave_\v, sfi_results_int_all_\v, sfi_results_int_all_\v
    .quad   sfi_results_float_leave_\v, sfi_results_float_keep_\v, sfi_results_void_all_\v
    .quad   sfi_results_any_leave_\v, sfi_results_host_keep_\v, sfi_results_any_all_\v
    .irp n,0,1,2,3,4,5,6
    .irp m,0,1,2,3,4,5,6,7,8,9,10
    .quad   sfi_args_\v\()_\n\m
    .endr
    .endr
    .text
.endm

    GATES   avx_fsgs, 1, 1
    GATES   sse_fsgs, 0, 1
    GATES   avx_prctl, 1, 0
    GATES   sse_prctl, 0, 0

# Sets GS base to rax by the kernel: arch_prctl(ARCH_SET_GS, rax). Keeps all registers but the
# flags.
sfi_set_gs:
    push    %rdi
    push    %rsi
    push    %rcx
    push    %r11
    push    %rax
    mov     %rax, %rsi
    mov     ${ARCH_SET_GS}, %edi
    mov     ${ARCH_PRCTL}, %eax
    syscall
    test    %eax, %eax
    jnz     1f
    pop     %rax
    pop     %r11
    pop     %rcx
    pop     %rsi
    pop     %rdi
    ret
1:
    hlt

# The control stack is used up. The signal handler recognises this address.
    .globl  sfi_trap_control
    .hidden sfi_trap_control
sfi_trap_control:
    ud2
    .globl  sfi_gates_end
    .hidden sfi_gates_end
sfi_gates_end:

    .section .rodata.sfi_gates,"a",@progbits
    .p2align 2
sfi_default_mxcsr:
    .long   {MXCSR}
# As `fninit` sets it (SDM volume 1, section 8.1.5).
sfi_default_cw:
    .short  0x37f
    .text
