# Domain to host function. The frame's word `entry` is the flag MXCSR if its MXCSR holds the
# caller's, otherwise 0. `base` is written last. Of the registers that functions preserve it uses
# only r15. After the call it finds everything through the record on the host's stack.

.macro GATE_HOST v, avx, fsgs
    .p2align 6
sfi_gate_host_\v:
    NEW_FRAME
    mov     {C_HOST_RSP}(%r11), %rax
    lea     -{HOST_FRAME}(%rax), %rax
    STORE_INTS {H_INTS}, %rax
    mov     %rsp, {H_FRAME}(%rax)
    mov     %r15, {FRAME_R15}(%rsp)
    mov     %r10, {FRAME_BINDING}(%rsp)
    movl    $0, {FRAME_ENTRY}(%rsp)
    mov     {C_CURRENT}(%r11), %rsi
    mov     %rsi, {FRAME_CALLER}(%rsp)
    mov     {C_TOP}(%r11), %rcx
    mov     %rcx, {FRAME_OUTER}(%rsp)
    mov     {D_BASE}(%rsi), %rdi
    mov     {D_SP}(%rsi), %rcx
    mov     %rcx, {FRAME_SP}(%rsp)
    mov     %r15d, %r15d
    or      %rdi, %r15
    mov     %r15, {H_R15}(%rax)
    DATA_STACK %rsi, 48f
49:
    mov     %r15, {D_SP}(%rsi)
    mov     %rsp, {C_CONTROL_SP}(%r11)
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

    mov     {H_FRAME}(%rsp), %r11
    and     $-{CONTROL_SIZE}, %r11
    mov     %eax, %ecx
    mov     {H_RAX}(%rsp), %rax
    mov     {H_RDX}(%rsp), %rdx
    movq    {H_XMM0}(%rsp), %xmm0
    movq    {H_XMM1}(%rsp), %xmm1
    cmp     ${E_PANIC}, %ecx
    je      61f
    mov     {C_CONTROL_SP}(%r11), %rsp
    mov     {FRAME_BINDING}(%rsp), %r10
    mov     {C_CURRENT}(%r11), %r9
    mov     {C_THREAD}(%r11), %rsi
    mov     {T_GS}(%rsi), %rdi
    test    %ecx, %ecx
    jnz     54f
    testl   ${F_OUT}, {B_FLAGS}(%r10)
    jnz     54f
    cmpl    $0, {FRAME_ENTRY}(%rsp)
    jne     54f
    cmp     {D_BASE}(%r9), %rdi
    jne     54f
    mov     {FRAME_SP}(%rsp), %rcx
    mov     %rcx, {D_SP}(%r9)
    DROP_FRAME
    jmp     *{B_RESULTS}(%r10)
47:
    mov     %rdi, {T_GS}(%rdx)
    jmp     46b
48:
    xor     %r15d, %r15d
    jmp     49b
50:
    stmxcsr {FRAME_MXCSR}(%rsp)
    movl    ${F_MXCSR}, {FRAME_ENTRY}(%rsp)
    ldmxcsr {C_HOST_MXCSR}(%r11)
    jmp     51b
52:
    testl   ${F_CALLER_PAYS}, {B_FLAGS}(%r10)
    jz      68f
    mov     %r14, {D_LEFT}(%rsi)
68:
    LOW_ALL \avx
    testl   ${F_FLOATS}, {B_FLAGS}(%r10)
    jz      67f
    .irp n,0,1,2,3,4,5,6,7
    movq    %xmm\n, {H_FLOATS}+{WORD}*\n(%rax)
    .endr
67:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      64f
    cmpl    $0, {FRAME_ENTRY}(%rsp)
    jne     64f
    stmxcsr {FRAME_MXCSR}(%rsp)
    movl    ${F_MXCSR}, {FRAME_ENTRY}(%rsp)
    mov     {FRAME_MXCSR}(%rsp), %ecx
    xor     {C_HOST_MXCSR}(%r11), %ecx
    test    ${MXCSR_CONTROL}, %ecx
    jz      64f
    ldmxcsr {C_HOST_MXCSR}(%r11)
64:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      53b
    fnstcw  {FRAME_CW}(%rsp)
    RESET_X87 %rcx
    fldcw   {C_HOST_CW}(%r11)
    jmp     53b
54:
    mov     {D_BASE}(%r9), %rsi
    mov     %rsi, {FRAME_BASE}(%rsp)
    mov     {B_FLAGS}(%r10), %esi
    or      {FRAME_ENTRY}(%rsp), %esi
    jmp     sfi_leave_as_\v
# The host function panicked. The domains between it and the host's innermost entry are dead, and
# the entry returns.
61:
    mov     %ecx, %edx
    mov     {C_HOST_RSP}(%r11), %rsp
    jmp     37b
.endm
