# Host to domain. r11 is the context, r10 the binding, r12 the control stack pointer, r14 the
# thread, r15 the callee's data stack pointer. The arguments are in their registers, xmm0-7 only
# with the flag FLOATS. Returns rax, xmm0 and xmm1, the callee's rdx in r8, and the status in edx.
# Of the other registers only rbx and rbp are preserved. The callee gets the rest of its budget of
# instructions in r14, or 0 without one. The changes of current, top, host_rsp and host_mxcsr stay.
# `Held::cross_nested` restores them when a host function enters a domain. Pushes rbp, rbx and the
# flags on the host's stack, which is then 16-byte aligned. The pushed flags get MXCSR if the entry
# sets MXCSR.

.macro GATE_ENTER v, avx, fsgs
    .p2align 6
sfi_enter_\v:
    push    %rbp
    push    %rbx
    mov     {B_FLAGS}(%r10), %r13d
    push    %r13
    stmxcsr {C_HOST_MXCSR}(%r11)
    mov     %rsp, {C_HOST_RSP}(%r11)
    mov     %rsp, {ENTRY_HOST_RSP}-{ENTRY}(%r12)
    lea     -{ENTRY}(%r12), %rsp
    mov     {B_ENTRY}(%r10), %rax
    mov     %rax, {ENTRY_ENTRY}(%rsp)
    mov     %r10, {ENTRY_BINDING}(%rsp)
    mov     {B_CALLEE}(%r10), %rbp
    mov     %rbp, {C_CURRENT}(%r11)
    mov     %rsp, {C_TOP}(%r11)
    mov     {B_BASE}(%r10), %rax
    cmp     {T_GS}(%r14), %rax
    jne     30f
31:
    test    ${F_ENTER}, %r13d
    jnz     32f
33:
    mov     {C_HOST_MXCSR}(%r11), %eax
    xor     ${MXCSR}, %eax
    test    {B_MXCSR}(%r10), %eax
    jnz     34f
35:
    mov     {D_LEFT}(%rbp), %r14
    xor     %eax, %eax
    xor     %ebx, %ebx
    xor     %ebp, %ebp
    xor     %r10d, %r10d
    xor     %r11d, %r11d
    xor     %r12d, %r12d
    xor     %r13d, %r13d
    call    *{ENTRY_ENTRY}(%rsp)

    FIND_CONTEXT
    mov     {ENTRY_BINDING}(%rsp), %r10
    mov     %rdx, %r8
    xor     %edx, %edx
36:
    mov     {C_HOST_RSP}(%r11), %rsp
    mov     {B_BASE}(%r10), %rcx
    mov     {C_THREAD}(%r11), %rsi
    mov     %rcx, {T_GS}(%rsi)
37:
    testl   ${F_EXIT}, (%rsp)
    jnz     38f
41:
    pop     %rcx
    pop     %rbx
    pop     %rbp
    ret
30:
    SET_GS  \fsgs
    mov     %rax, {T_GS}(%r14)
    jmp     31b
32:
    test    ${F_VECTORS}, %r13d
    jz      44f
    test    ${F_FLOATS}, %r13d
    jnz     45f
    .irp n,0,1,2,3,4,5,6,7
    CLEAR_X \avx, \n
    .endr
46:
    .irp n,8,9,10,11,12,13,14,15
    CLEAR_X \avx, \n
    .endr
    test    ${F_ENTER_STATE}, %r13d
    jz      33b
44:
    test    ${F_X87}, %r13d
    jz      42f
    fnstcw  {C_HOST_CW}(%r11)
    RESET_X87
42:
    test    ${F_ZMM_IN}, %r13d
    jz      33b
    CLEAR_ZMM
    jmp     33b
45:
    LOW_ALL \avx
    .irp n,0,1,2,3,4,5,6,7
    LOW_X   \avx, \n
    .endr
    jmp     46b
34:
    mov     {C_HOST_RSP}(%r11), %rax
    orl     ${F_MXCSR}, (%rax)
    ldmxcsr sfi_default_mxcsr(%rip)
    jmp     35b
38:
    testl   ${F_CALLEE_PAYS}, (%rsp)
    jz      43f
    test    %edx, %edx
    jnz     43f
    mov     {B_CALLEE}(%r10), %rcx
    mov     %r14, {D_LEFT}(%rcx)
43:
    LOW_ALL \avx
    testl   ${F_EXIT_STATE}, (%rsp)
    jz      41b
    testl   ${F_X87}, (%rsp)
    jz      39f
    RESET_X87 %rcx
    fldcw   {C_HOST_CW}(%r11)
39:
    stmxcsr {C_SCRATCH}(%r11)
    mov     {C_SCRATCH}(%r11), %ecx
    xor     {C_HOST_MXCSR}(%r11), %ecx
    test    ${MXCSR_CONTROL}, %ecx
    jz      41b
    ldmxcsr {C_HOST_MXCSR}(%r11)
    jmp     41b

# The entered domain faulted. eax is the status, rsp the frame.
sfi_enter_failed_\v:
    FIND_CONTEXT
    mov     {ENTRY_BINDING}(%rsp), %r10
    mov     %eax, %edx
    jmp     36b
.endm
