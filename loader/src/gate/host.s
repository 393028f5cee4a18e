# domain to host function. On the control stack, from control_sp (r12) on: 0 the caller's MXCSR   4 its x87 control word
# 8 whether the word at 0 holds anything   16 its sp   24 r15   32 r14   40 r12   48 rbx   56 return address

.macro GATE_HOST v, avx, fsgs
    .p2align 6
sfi_gate_host_\v:
    cmp     {C_LIMIT}(%r11), %rsp
    jb      sfi_trap_control
    lea     -56(%rsp), %rsp
    mov     %rbx, 48(%rsp)
    mov     %r12, 40(%rsp)
    mov     %r14, 32(%rsp)
    mov     %r15, 24(%rsp)
    mov     {C_CURRENT}(%r11), %rbx
    mov     {D_BASE}(%rbx), %rax
    mov     {D_SP}(%rbx), %r12
    mov     %r12, 16(%rsp)
    movl    $0, 8(%rsp)
# The caller's data stack pointer for calls back: its r15 truncated, rebased, aligned, or 0 outside its data stack. Both
# bounds are addresses of the window.
    mov     %r15d, %r15d
    or      %rax, %r15
    cmp     {D_STACK_LOW}(%rbx), %r15
    jb      48f
    cmp     {D_STACK_HIGH}(%rbx), %r15
    ja      48f
    mov     %r15, %r14
    and     $-16, %r14
49:
    mov     %r14, {D_SP}(%rbx)
    mov     %rsp, %r12
    mov     %rsp, {C_CONTROL_SP}(%r11)
    mov     {C_THREAD}(%r11), %r14
    mov     %rax, {T_GS}(%r14)
    mov     {C_HOST_MXCSR}(%r11), %eax
    mov     {C_HOST_RSP}(%r11), %rsp
    lea     -{HOST_FRAME}(%rsp), %rsp
    xor     ${MXCSR}, %eax
    test    ${MXCSR_CONTROL}, %eax
    jnz     50f
51:
    mov     %rdi, 0(%rsp)
    mov     %rsi, 8(%rsp)
    mov     %rdx, 16(%rsp)
    mov     %rcx, 24(%rsp)
    mov     %r8, 32(%rsp)
    mov     %r9, 40(%rsp)
    mov     %r15, {H_R15}(%rsp)
    testl   ${F_LEAVE}, {B_FLAGS}(%r10)
    jnz     52f
53:
    mov     %r10, %r14
    mov     %r11, %rdi
    mov     %r10, %rsi
    mov     %rsp, %rdx
    call    *{B_SHIM}(%r10)
    mov     %r12, %r11
    and     $-{CONTROL_SIZE}, %r11
    test    %eax, %eax
    jnz     54f
    mov     {C_THREAD}(%r11), %rcx
    mov     {D_BASE}(%rbx), %rax
    cmp     {T_GS}(%rcx), %rax
    jne     55f
56:
    mov     {H_RAX}(%rsp), %rax
    movq    {H_XMM0}(%rsp), %xmm0
    mov     %r12, %rsp
    testl   ${F_OUT}, {B_FLAGS}(%r14)
    jnz     57f
58:
    cmpl    $0, 8(%rsp)
    jne     59f
60:
    mov     16(%rsp), %rcx
    mov     %rcx, {D_SP}(%rbx)
    mov     %r14, %r10
    mov     24(%rsp), %r15
    mov     32(%rsp), %r14
    mov     40(%rsp), %r12
    mov     48(%rsp), %rbx
    lea     56(%rsp), %rsp
    jmp     *{B_RESULTS}(%r10)
48:
    xor     %r14d, %r14d
    jmp     49b
# The word at 8(%r12) says that the one at 0 holds the caller's MXCSR.
50:
    stmxcsr (%r12)
    movl    $1, 8(%r12)
    ldmxcsr {C_HOST_MXCSR}(%r11)
    jmp     51b
52:
    LOW_ALL \avx
    testl   ${F_FLOATS}, {B_FLAGS}(%r10)
    jz      67f
    .irp n,0,1,2,3,4,5,6,7
    movq    %xmm\n, {H_FLOATS}+8*\n(%rsp)
    .endr
67:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      64f
    cmpl    $0, 8(%r12)
    jne     64f
    stmxcsr (%r12)
    movl    $1, 8(%r12)
    mov     (%r12), %eax
    xor     {C_HOST_MXCSR}(%r11), %eax
    test    ${MXCSR_CONTROL}, %eax
    jz      64f
    ldmxcsr {C_HOST_MXCSR}(%r11)
64:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      53b
    fnstcw  4(%r12)
    RESET_X87
    fldcw   {C_HOST_CW}(%r11)
    jmp     53b
# The host function panicked, or the caller died in a nested call. Then the registers that this gate used become the caller's again: the
# frame that fails may not have saved them.
54:
    cmp     ${E_PANIC}, %eax
    je      61f
    cmpl    $0, 8(%r12)
    je      65f
    ldmxcsr (%r12)
65:
    mov     %eax, %edx
    mov     {D_BASE}(%rbx), %rax
    mov     {C_TOP}(%r11), %rsp
    mov     (%rsp), %r10
    mov     {C_THREAD}(%r11), %rcx
    mov     48(%r12), %rbx
    mov     32(%r12), %r14
    mov     40(%r12), %r12
    cmp     {T_GS}(%rcx), %rax
    je      62f
    SET_GS  \fsgs
62:
    mov     %edx, %eax
    jmp     *{B_FAILED}(%r10)
61:
    mov     %eax, %edx
    mov     {C_HOST_RSP}(%r11), %rsp
    jmp     37b
55:
    SET_GS  \fsgs
    jmp     56b
57:
    testl   ${F_X87}, {B_FLAGS}(%r14)
    jz      63f
    RESET_X87
    fldcw   4(%rsp)
63:
    testl   ${F_ZMM_OUT}, {B_FLAGS}(%r14)
    jz      58b
    CLEAR_ZMM
    jmp     58b
59:
    stmxcsr 8(%rsp)
    mov     8(%rsp), %ecx
    cmp     (%rsp), %ecx
    je      60b
    ldmxcsr (%rsp)
    jmp     60b
.endm
