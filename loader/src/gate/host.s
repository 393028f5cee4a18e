# domain to host function. On the control stack, from control_sp on: 0 the caller's MXCSR   4 its x87 control word
# 8 whether the word at 0 holds anything   16 its sp   24 r15   32 return address
# Of the registers that functions preserve it uses r15 only; behind the call it finds everything through the frame on the host's stack.

.macro GATE_HOST v, avx, fsgs
    .p2align 6
sfi_gate_host_\v:
    cmp     {C_LIMIT}(%r11), %rsp
    jb      sfi_trap_control
    lea     -32(%rsp), %rsp
    mov     {C_HOST_RSP}(%r11), %rax
    lea     -{HOST_FRAME}(%rax), %rax
    mov     %rdi, 0(%rax)
    mov     %rsi, 8(%rax)
    mov     %rdx, 16(%rax)
    mov     %rcx, 24(%rax)
    mov     %r8, 32(%rax)
    mov     %r9, 40(%rax)
    mov     %r11, {H_CONTEXT}(%rax)
    mov     %r15, 24(%rsp)
    mov     {C_CURRENT}(%r11), %rsi
    mov     {D_BASE}(%rsi), %rdi
    mov     {D_SP}(%rsi), %rcx
    mov     %rcx, 16(%rsp)
    movl    $0, 8(%rsp)
# The caller's data stack pointer for calls back: its r15 truncated, rebased, aligned, or 0 outside its data stack. Both
# bounds are addresses of the window.
    mov     %r15d, %r15d
    or      %rdi, %r15
    mov     %r15, {H_R15}(%rax)
    cmp     {D_STACK_LOW}(%rsi), %r15
    jb      48f
    cmp     {D_STACK_HIGH}(%rsi), %r15
    ja      48f
    and     $-16, %r15
49:
    mov     %r15, {D_SP}(%rsi)
    mov     %rsp, {C_CONTROL_SP}(%r11)
    mov     %r10, {C_CALLING}(%r11)
    mov     {C_THREAD}(%r11), %rdx
    cmp     {T_GS}(%rdx), %rdi
    jne     47f
46:
    mov     {C_HOST_MXCSR}(%r11), %ecx
    xor     ${MXCSR}, %ecx
    test    ${MXCSR_CONTROL}, %ecx
    jnz     50f
51:
    testl   ${F_LEAVE}, {B_FLAGS}(%r10)
    jnz     52f
53:
    mov     %rax, %rsp
    mov     %r11, %rdi
    mov     %r10, %rsi
    mov     %rax, %rdx
    call    *{B_SHIM}(%r10)
    mov     {H_CONTEXT}(%rsp), %r11
    test    %eax, %eax
    jnz     54f
    mov     {C_CURRENT}(%r11), %rsi
    mov     {C_THREAD}(%r11), %rcx
    mov     {C_CALLING}(%r11), %r10
    mov     {D_BASE}(%rsi), %rax
    cmp     {T_GS}(%rcx), %rax
    jne     55f
56:
    mov     {H_RAX}(%rsp), %rax
    movq    {H_XMM0}(%rsp), %xmm0
    mov     {C_CONTROL_SP}(%r11), %rsp
    testl   ${F_OUT}, {B_FLAGS}(%r10)
    jnz     57f
58:
    cmpl    $0, 8(%rsp)
    jne     59f
60:
    mov     16(%rsp), %rcx
    mov     %rcx, {D_SP}(%rsi)
    mov     24(%rsp), %r15
    lea     32(%rsp), %rsp
    jmp     *{B_RESULTS}(%r10)
47:
    mov     %rdi, {T_GS}(%rdx)
    jmp     46b
48:
    xor     %r15d, %r15d
    jmp     49b
# The word at 8(%rsp) says that the one at 0 holds the caller's MXCSR.
50:
    stmxcsr (%rsp)
    movl    $1, 8(%rsp)
    ldmxcsr {C_HOST_MXCSR}(%r11)
    jmp     51b
52:
    LOW_ALL \avx
    testl   ${F_FLOATS}, {B_FLAGS}(%r10)
    jz      67f
    .irp n,0,1,2,3,4,5,6,7
    movq    %xmm\n, {H_FLOATS}+8*\n(%rax)
    .endr
67:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      64f
    cmpl    $0, 8(%rsp)
    jne     64f
    stmxcsr (%rsp)
    movl    $1, 8(%rsp)
    mov     (%rsp), %ecx
    xor     {C_HOST_MXCSR}(%r11), %ecx
    test    ${MXCSR_CONTROL}, %ecx
    jz      64f
    ldmxcsr {C_HOST_MXCSR}(%r11)
64:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      53b
    fnstcw  4(%rsp)
    RESET_X87
    fldcw   {C_HOST_CW}(%r11)
    jmp     53b
# The host function panicked, or the caller died in a nested call. The frame that fails is the innermost one.
54:
    cmp     ${E_PANIC}, %eax
    je      61f
    mov     {C_CONTROL_SP}(%r11), %rcx
    cmpl    $0, 8(%rcx)
    je      65f
    ldmxcsr (%rcx)
65:
    mov     %eax, %edx
    mov     {C_CURRENT}(%r11), %rax
    mov     {D_BASE}(%rax), %rax
    mov     {C_TOP}(%r11), %rsp
    mov     (%rsp), %r10
    mov     {C_THREAD}(%r11), %rcx
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
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      63f
    RESET_X87
    fldcw   4(%rsp)
63:
    testl   ${F_ZMM_OUT}, {B_FLAGS}(%r10)
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
