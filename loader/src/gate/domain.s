# Domain to domain: the common path. With \p 0 it saves none of rbx, rbp, r12-r14. With 1 it saves
# all of them for the case that the callee fails. With 2 it saves, clears and restores all. With \c
# it also saves the control words of x87 and SSE for that case. With \g it sets the GS base on both
# ways. Without, the callee's text neither uses GS nor leads out of itself, so GS stays the caller's
# until the callee returns. The two ways of one call lie in one gate, so they cannot disagree. A
# call that fails sets the GS base in any case. The way in uses rax and r15, the way out rcx, rsi,
# rdi, r8 and r9, so no other register has to be saved. With 3 it does as with 2, and a side has a
# budget of instructions: its rest is in r14 while that side runs, and in its state while it does
# not.
.macro GATE_DOMAIN v, fsgs, p, c, g
    .p2align 6
sfi_gate_\p\c\g\()_\v:
    NEW_FRAME
    .if \p
    SAVE
    .endif
    .if \c
    fnstcw  {FRAME_CW}(%rsp)
    stmxcsr {FRAME_MXCSR}(%rsp)
    .endif
    mov     %r15, {FRAME_R15}(%rsp)
    mov     {C_CURRENT}(%r11), %rax
    mov     %r10, {FRAME_BINDING}(%rsp)
    mov     %rax, {FRAME_CALLER}(%rsp)
    .if \p == 3
    testl   ${F_CALLER_PAYS}, {B_FLAGS}(%r10)
    jz      16f
    mov     %r14, {D_LEFT}(%rax)
16:
    .endif
    mov     {B_ENTRY}(%r10), %r15
    mov     %r15, {FRAME_ENTRY}(%rsp)
    mov     {C_TOP}(%r11), %r15
    mov     %r15, {FRAME_OUTER}(%rsp)
    mov     {D_SP}(%rax), %r15
    mov     %r15, {FRAME_SP}(%rsp)
    mov     {D_BASE}(%rax), %r15
    mov     %r15, {FRAME_BASE}(%rsp)
    mov     {FRAME_R15}(%rsp), %r15d
    or      {D_BASE}(%rax), %r15
    DATA_STACK %rax, 12f
13:
    mov     %r15, {D_SP}(%rax)
    mov     {B_CALLEE}(%r10), %rax
    mov     {D_SP}(%rax), %r15
    test    %r15, %r15
    jz      sfi_refuse_\v
    testl   ${F_IN}, {B_FLAGS}(%r10)
    jnz     10f
11:
    mov     %rax, {C_CURRENT}(%r11)
    mov     %rsp, {C_TOP}(%r11)
    .if \p == 3
    mov     {D_LEFT}(%rax), %r14
    .endif
    .if \g
    mov     {B_BASE}(%r10), %rax
    .endif
    .if \p >= 2
    xor     %ebx, %ebx
    xor     %ebp, %ebp
    xor     %r12d, %r12d
    xor     %r13d, %r13d
    .endif
    .if \p == 2
    xor     %r14d, %r14d
    .endif
    .if \g
    SET_GS  \fsgs
    .endif
    call    *{B_ARGUMENTS}(%r10)

# The callee returned. `sfi_leave` handles the cases off the common path.
    FIND_CONTEXT
    mov     {FRAME_BINDING}(%rsp), %r10
    .if \p == 3
    testl   ${F_CALLEE_PAYS}, {B_FLAGS}(%r10)
    jz      17f
    mov     {B_SERVER}(%r10), %r9
    mov     %r14, {D_LEFT}(%r9)
17:
    .endif
    mov     {FRAME_CALLER}(%rsp), %r9
    mov     %rax, %r8
    mov     {FRAME_OUTER}(%rsp), %rsi
    mov     {FRAME_SP}(%rsp), %rdi
    mov     %rsi, {C_TOP}(%r11)
    cmpl    $0, {D_DEAD}(%r9)
    jne     14f
    .if \g
    mov     {FRAME_BASE}(%rsp), %rax
    SET_GS  \fsgs
    .endif
    mov     %r9, {C_CURRENT}(%r11)
    mov     %rdi, {D_SP}(%r9)
    testl   ${F_OUT}, {B_FLAGS}(%r10)
    mov     %r8, %rax
    jnz     15f
    .if \p >= 2
    RESTORE
    .endif
    DROP_FRAME
    jmp     *{B_RESULTS}(%r10)
10:
    call    sfi_way_in_\v
    jmp     11b
12:
    xor     %r15d, %r15d
    jmp     13b
14:
    mov     %r8, %rax
    xor     %ecx, %ecx
    jmp     sfi_leave_\v
15:
    mov     {FRAME_BASE}(%rsp), %rdi
    mov     {B_FLAGS}(%r10), %esi
    xor     %ecx, %ecx
    jmp     sfi_leave_as_\v
.endm

# Domain to domain: the parts off the common path. All gates share them.
.macro DOMAIN_ASIDE v, fsgs
# The way in. r10 is the binding, rax the callee, r15 the callee's data stack pointer, which stack
# arguments may lower. The frame lies after the return address.
    .p2align 4
sfi_way_in_\v:
    testl   ${F_POINTERS}, {B_FLAGS}(%r10)
    jz      16f
    mov     {WORD}+{FRAME_CALLER}(%rsp), %r11
    REFUSE_CODE_ARGUMENT 0, %rdi, %edi, %r11, 9f
    REFUSE_CODE_ARGUMENT 1, %rsi, %esi, %r11, 9f
    REFUSE_CODE_ARGUMENT 2, %rdx, %edx, %r11, 9f
    REFUSE_CODE_ARGUMENT 3, %rcx, %ecx, %r11, 9f
    REFUSE_CODE_ARGUMENT 4, %r8, %r8d, %r11, 9f
    REFUSE_CODE_ARGUMENT 5, %r9, %r9d, %r11, 9f
    FIND_CONTEXT
    mov     {B_CALLEE}(%r10), %rax
16:
    testl   ${F_STACK}, {B_FLAGS}(%r10)
    jz      20f
# Stack arguments. rbx is the caller, r12 the number of words, r13 their address in the caller.
    SAVE    {WORD}
    mov     {WORD}+{FRAME_CALLER}(%rsp), %rbx
    mov     {WORD}+{FRAME_R15}(%rsp), %r13d
    or      {D_BASE}(%rbx), %r13
    mov     {B_STACK_WORDS}(%r10), %r12d
    cmp     {D_STACK_LOW}(%rbx), %r13
    jb      19f
    lea     (%r13,%r12,{WORD}), %rax
    cmp     {D_STACK_HIGH}(%rbx), %rax
    ja      19f
    testl   ${F_CLIENT_STACK}, {B_FLAGS}(%r10)
    jnz     18f
    lea     1(%r12), %rax
    and     $-2, %rax
    shl     $3, %rax
    sub     %rax, %r15
    mov     {B_CALLEE}(%r10), %rax
    cmp     {D_STACK_LOW}(%rax), %r15
    jb      19f
21:
    mov     -{WORD}(%r13,%r12,{WORD}), %rax
    mov     %rax, -{WORD}(%r15,%r12,{WORD})
    dec     %r12
    jnz     21b
17:
    mov     {B_CALLEE}(%r10), %rax
    RESTORE {WORD}
20:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      22f
    stmxcsr {WORD}+{FRAME_MXCSR}(%rsp)
    cmpl    ${MXCSR}, {WORD}+{FRAME_MXCSR}(%rsp)
    je      22f
    ldmxcsr sfi_default_mxcsr(%rip)
22:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      23f
    fnstcw  {WORD}+{FRAME_CW}(%rsp)
    RESET_X87
    mov     {B_CALLEE}(%r10), %rax
23:
    testl   ${F_ZMM_IN}, {B_FLAGS}(%r10)
    jz      24f
    CLEAR_ZMM
24:
    testl   ${F_POINTERS}, {B_FLAGS}(%r10)
    jz      25f
    REBASE_ARGUMENT 0, %rdi, %edi, %dil
    REBASE_ARGUMENT 1, %rsi, %esi, %sil
    REBASE_ARGUMENT 2, %rdx, %edx, %dl
    REBASE_ARGUMENT 3, %rcx, %ecx, %cl
    REBASE_ARGUMENT 4, %r8, %r8d, %r8b
    REBASE_ARGUMENT 5, %r9, %r9d, %r9b
    FIND_CONTEXT
25:
    ret
# Stack arguments without a copy: the callee gets their checked address in its TCB page.
18:
    mov     {B_CALLEE}(%r10), %rax
    mov     {D_TCB}(%rax), %rax
    mov     %r13, {TCB_CLIENT_STACK}(%rax)
    jmp     17b
9:
    lea     {WORD}(%rsp), %rsp
    mov     ${E_CODE}, %ecx
    jmp     sfi_refused_\v
19:
    RESTORE {WORD}
    lea     {WORD}(%rsp), %rsp
    mov     ${E_ARGUMENTS}, %ecx
# The callee did not run, and the caller's state was not touched. ecx is the status.
sfi_refused_\v:
    mov     {FRAME_CALLER}(%rsp), %r9
    jmp     sfi_report_\v

# The callee faulted, or it faulted in a frame further in. eax is the status, rsp the frame.
    .p2align 4
sfi_failed_\v:
    mov     %eax, %ecx

# The only way out of a frame. ecx is the status, or 0 if the callee returned, with its result in
# rax, rdx, xmm0 and xmm1. Restores and clears the state that the frame's binding names for the side
# that goes on: its caller, or a frame further out if the caller died.
sfi_leave_\v:
    FIND_CONTEXT
    mov     {FRAME_BINDING}(%rsp), %r10
    mov     {FRAME_CALLER}(%rsp), %r9
    mov     {FRAME_OUTER}(%rsp), %rsi
    mov     %rsi, {C_TOP}(%r11)
    xor     %edi, %edi
    mov     {B_FLAGS}(%r10), %esi
    mov     {D_DEAD}(%r9), %r8d
    or      %ecx, %r8d
    cmovnz  {B_FAILING}(%r10), %esi
# Joined by a host function's frame, and by a return to a caller whose GS base is set. r11 is the
# context, r10 the binding, r9 the caller, esi the flags, and rdi the GS base, or 0 if it is not
# known.
sfi_leave_as_\v:
    test    ${F_PRESERVED}, %esi
    jz      30f
    RESTORE
30:
    test    ${F_CALLER_PAYS}, %esi
    jz      40f
    mov     {D_LEFT}(%r9), %r14
40:
    test    ${F_MXCSR}, %esi
    jz      31f
    stmxcsr {C_SCRATCH}(%r11)
    mov     {C_SCRATCH}(%r11), %r8d
    cmp     {FRAME_MXCSR}(%rsp), %r8d
    je      31f
    ldmxcsr {FRAME_MXCSR}(%rsp)
31:
    test    ${F_X87}, %esi
    jz      32f
    RESET_X87 %r8
    fldcw   {FRAME_CW}(%rsp)
32:
    test    ${F_ZMM_OUT}, %esi
    jz      33f
    CLEAR_ZMM
33:
    mov     %r9, {C_CURRENT}(%r11)
    mov     %rax, %r8
    mov     {FRAME_BASE}(%rsp), %rax
    cmp     %rax, %rdi
    je      34f
    SET_GS  \fsgs
34:
    cmpl    $0, {D_DEAD}(%r9)
    jne     sfi_abandon_\v
    test    %ecx, %ecx
    jnz     sfi_report_\v
    test    ${F_POINTER_RESULT}, %esi
    jz      35f
    mov     {B_SERVER}(%r10), %rdi
    REFUSE_CODE %r8, %r8d, %rdi, 39f
    REBASE  %r8, %r8d, %r8b, {FRAME_BASE}(%rsp), %r9
35:
    mov     %r8, %rax
    mov     {FRAME_SP}(%rsp), %rdi
    mov     %rdi, {D_SP}(%r9)
    DROP_FRAME
    jmp     *{B_RESULTS}(%r10)
39:
    mov     ${E_CODE}, %ecx

# Reports a failure to the caller (r9). GS is the caller's. ecx is the status.
sfi_report_\v:
    mov     {FRAME_SP}(%rsp), %rdi
    mov     %rdi, {D_SP}(%r9)
    mov     {D_TCB}(%r9), %rdi
    mov     %ecx, {TCB_ERROR}(%rdi)
    mov     {B_ON_FAULT}(%r10), %rax
    lea     {WORD}+{FRAME_RETURN}(%rsp), %rdi
    call    sfi_lane_sweep
    DROP_FRAME
    jmp     sfi_results_int_all_\v

# The caller died while its callee ran, so the frame that entered the caller fails. If the caller
# called a host function, ecx holds the host's reason.
sfi_abandon_\v:
    mov     ${E_DEAD}, %eax
    cmpq    $0, {B_SHIM}(%r10)
    cmovne  %ecx, %eax
    mov     {FRAME_OUTER}(%rsp), %rsp
    mov     %rsp, %rdi
    call    sfi_lane_sweep
    mov     {ENTRY_BINDING}(%rsp), %r10
    jmp     *{B_FAILED}(%r10)

# The callee's (rax) stack pointer is 0: it is dead, or active and not usable. It does not run.
sfi_refuse_\v:
    mov     {D_DEAD}(%rax), %eax
    mov     ${E_REFUSED}, %r15d
    test    %eax, %eax
    cmovz   %r15d, %eax
    cmp     ${E_DEAD}, %eax
    jne     36f
    cmpq    $0, {C_REVIVE}(%r11)
    jne     37f
36:
    mov     %eax, %ecx
    jmp     sfi_refused_\v
# The world restarts dead domains. The state becomes that at the gate's entry, the arguments are
# kept, and a host function gets the binding. If it restarted the callee, the call begins again.
# Otherwise the call fails.
37:
    mov     {FRAME_SP}(%rsp), %rax
    mov     {FRAME_CALLER}(%rsp), %r15
    mov     %rax, {D_SP}(%r15)
    mov     {FRAME_R15}(%rsp), %r15
    lea     {FRAME_RETURN}-{KEPT}(%rsp), %rsp
    KEEP_CALL
    mov     {C_REVIVE}(%r11), %r10
    call    sfi_gate_host_\v
    FIND_CONTEXT
    mov     {KEPT_BINDING}(%rsp), %r10
# The restart may have called the caller, which paid then, and undone the binding.
    mov     {C_CURRENT}(%r11), %rcx
    cmpq    $0, {D_INSTRUCTIONS}(%rcx)
    je      41f
    mov     {D_LEFT}(%rcx), %r14
41:
    xor     %ecx, %ecx
    cmp     ${E_OK}, %eax
    jne     38f
    BRING_CALL
    jmp     *{B_GATE}(%r10)
38:
    REFUSE_CALL
.endm
