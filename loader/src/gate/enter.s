# host to domain: rdi context, rsi binding, rdx call frame; eax = status. Changes current, top, host_rsp and host_mxcsr for good;
# `Inner::cross_nested` puts them back, and control_sp, when a host function enters.

.macro GATE_ENTER v, avx, fsgs
    .p2align 6
sfi_enter_\v:
    push    %rbp
    push    %rbx
    push    %r12
    push    %r13
    push    %r14
    push    %r15
    mov     {B_FLAGS}(%rsi), %ecx
    mov     {B_CALLEE}(%rsi), %rbp
    mov     {C_THREAD}(%rdi), %rbx
    mov     {B_BASE}(%rsi), %rax
    push    %rcx
    push    %rdx
    push    %rax
    stmxcsr {C_HOST_MXCSR}(%rdi)
    mov     %rdi, %r11
    mov     %rsi, %r10
    mov     %rdx, %r12
    mov     %rsp, {C_HOST_RSP}(%r11)
    mov     {C_CONTROL_SP}(%r11), %rsp
    push    {B_ENTRY}(%r10)
    push    %r10
    mov     %rbp, {C_CURRENT}(%r11)
    mov     %rsp, {C_TOP}(%r11)
    mov     {K_SP}(%r12), %r15
    cmp     {T_GS}(%rbx), %rax
    jne     30f
31:
    test    ${F_ENTER}, %ecx
    jnz     32f
    .irp n,0,1,2,3,4,5,6,7
    CLEAR_X \avx, \n
    .endr
33:
    mov     {C_HOST_MXCSR}(%r11), %eax
    xor     ${MXCSR}, %eax
    test    {B_MXCSR}(%r10), %eax
    jnz     34f
35:
    .irp n,8,9,10,11,12,13,14,15
    CLEAR_X \avx, \n
    .endr
    mov     0(%r12), %rdi
    mov     8(%r12), %rsi
    mov     16(%r12), %rdx
    mov     24(%r12), %rcx
    mov     32(%r12), %r8
    mov     40(%r12), %r9
    xor     %eax, %eax
    xor     %ebx, %ebx
    xor     %ebp, %ebp
    xor     %r10d, %r10d
    xor     %r11d, %r11d
    xor     %r12d, %r12d
    xor     %r13d, %r13d
    xor     %r14d, %r14d
    call    *8(%rsp)

    mov     %rsp, %r11
    and     $-{CONTROL_SIZE}, %r11
    mov     {C_HOST_RSP}(%r11), %rsp
    mov     8(%rsp), %rdi
    mov     %rax, {K_RAX}(%rdi)
    movq    %xmm0, {K_XMM0}(%rdi)
    xor     %eax, %eax
36:
    mov     (%rsp), %rcx
    mov     {C_THREAD}(%r11), %rdx
    mov     %rcx, {T_GS}(%rdx)
37:
    LOW_ALL \avx
    testl   ${F_EXIT}, 16(%rsp)
    jnz     38f
41:
    lea     24(%rsp), %rsp
    pop     %r15
    pop     %r14
    pop     %r13
    pop     %r12
    pop     %rbx
    pop     %rbp
    ret
30:
    SET_GS  \fsgs
    mov     %rax, {T_GS}(%rbx)
    jmp     31b
32:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      42f
    fnstcw  {C_HOST_CW}(%r11)
    RESET_X87
42:
    testl   ${F_ZMM_IN}, {B_FLAGS}(%r10)
    jz      43f
    CLEAR_ZMM
43:
    .irp n,0,1,2,3,4,5,6,7
    CLEAR_X \avx, \n
    .endr
    testl   ${F_FLOATS}, {B_FLAGS}(%r10)
    jz      33b
    .irp n,0,1,2,3,4,5,6,7
    movq    {K_FLOATS}+8*\n(%r12), %xmm\n
    .endr
    jmp     33b
34:
    mov     {C_HOST_RSP}(%r11), %rax
    orl     ${F_MXCSR}, 16(%rax)
    ldmxcsr sfi_default_mxcsr(%rip)
    jmp     35b
38:
    testl   ${F_X87}, 16(%rsp)
    jz      39f
    RESET_X87
    fldcw   {C_HOST_CW}(%r11)
39:
    stmxcsr {C_SCRATCH}(%r11)
    mov     {C_SCRATCH}(%r11), %ecx
    xor     {C_HOST_MXCSR}(%r11), %ecx
    test    ${MXCSR_CONTROL}, %ecx
    jz      41b
    ldmxcsr {C_HOST_MXCSR}(%r11)
    jmp     41b

# The entered domain faulted: eax = status, rsp = the frame.
sfi_enter_failed_\v:
    mov     %rsp, %r11
    and     $-{CONTROL_SIZE}, %r11
    mov     {C_HOST_RSP}(%r11), %rsp
    jmp     36b
.endm
