# domain to domain: the common path. \p: of rbx, rbp, r12-r14 it 0 saves none, 1 saves all for the case that the callee fails, 2 saves,
# clears and restores all. It uses rax and r15 on the way in and rcx, rsi, rdi, r8, r9 on the way out, so nothing else need be saved.
.macro GATE_DOMAIN v, fsgs, p
    .p2align 6
sfi_gate_\p\()_\v:
    cmp     {C_LIMIT}(%r11), %rsp
    jb      sfi_trap_control
    lea     -104(%rsp), %rsp
    .if \p
    SAVE
    .endif
    mov     %r15, 56(%rsp)
    mov     {C_CURRENT}(%r11), %rax
    mov     %r10, (%rsp)
    mov     %rax, 16(%rsp)
    mov     {B_ENTRY}(%r10), %r15
    mov     %r15, 8(%rsp)
    mov     {C_TOP}(%r11), %r15
    mov     %r15, 24(%rsp)
    mov     {D_SP}(%rax), %r15
    mov     %r15, 32(%rsp)
    mov     {D_BASE}(%rax), %r15
    mov     %r15, 40(%rsp)
# The caller's data stack pointer for calls back: its r15 truncated, rebased, aligned, or 0 outside its data stack. Both
# bounds are addresses of the window.
    mov     56(%rsp), %r15d
    or      {D_BASE}(%rax), %r15
    cmp     {D_STACK_LOW}(%rax), %r15
    jb      12f
    cmp     {D_STACK_HIGH}(%rax), %r15
    ja      12f
    and     $-16, %r15
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
    mov     {B_BASE}(%r10), %rax
    .if \p == 2
    xor     %ebx, %ebx
    xor     %ebp, %ebp
    xor     %r12d, %r12d
    xor     %r13d, %r13d
    xor     %r14d, %r14d
    .endif
    SET_GS  \fsgs
    call    *{B_ARGUMENTS}(%r10)

    mov     %rsp, %r11
    and     $-{CONTROL_SIZE}, %r11
    mov     (%rsp), %r10
    mov     16(%rsp), %r9
    mov     %rax, %r8
    mov     24(%rsp), %rsi
    mov     32(%rsp), %rdi
    mov     %rsi, {C_TOP}(%r11)
    mov     40(%rsp), %rax
    cmpl    $0, {D_DEAD}(%r9)
    jne     sfi_dead_\v
    SET_GS  \fsgs
    mov     %r9, {C_CURRENT}(%r11)
    mov     %rdi, {D_SP}(%r9)
    testl   ${F_OUT}, {B_FLAGS}(%r10)
    mov     %r8, %rax
    jnz     14f
15:
    .if \p == 2
    RESTORE
    .endif
    mov     56(%rsp), %r15
    lea     104(%rsp), %rsp
    jmp     *{B_RESULTS}(%r10)
10:
    call    sfi_way_in_\v
    jmp     11b
12:
    xor     %r15d, %r15d
    jmp     13b
14:
    call    sfi_way_out_\v
    jmp     15b
.endm

# domain to domain: what all gates share, beside the common path.
.macro DOMAIN_ASIDE v, avx, fsgs
# The way in. r10 binding, rax callee, r15 its data stack pointer, which may go down; the frame lies behind the return address.
    .p2align 4
sfi_way_in_\v:
    push    %rbx
    push    %r12
    push    %r13
    push    %rax
    testl   ${F_STACK}, {B_FLAGS}(%r10)
    jz      20f
    mov     40+16(%rsp), %rbx
    mov     40+56(%rsp), %r13d
    or      {D_BASE}(%rbx), %r13
    mov     {B_STACK_WORDS}(%r10), %r12d
    cmp     {D_STACK_LOW}(%rbx), %r13
    jb      19f
    lea     (%r13,%r12,8), %rax
    cmp     {D_STACK_HIGH}(%rbx), %rax
    ja      19f
    testl   ${F_CLIENT_STACK}, {B_FLAGS}(%r10)
    jnz     18f
    lea     1(%r12), %rax
    and     $-2, %rax
    shl     $3, %rax
    sub     %rax, %r15
    mov     (%rsp), %rax
    cmp     {D_STACK_LOW}(%rax), %r15
    jb      19f
21:
    mov     -8(%r13,%r12,8), %rax
    mov     %rax, -8(%r15,%r12,8)
    dec     %r12
    jnz     21b
20:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      22f
    stmxcsr 40+52(%rsp)
    cmpl    ${MXCSR}, 40+52(%rsp)
    je      22f
    ldmxcsr sfi_default_mxcsr(%rip)
22:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      23f
    fnstcw  40+48(%rsp)
    RESET_X87
23:
    testl   ${F_ZMM_IN}, {B_FLAGS}(%r10)
    jz      24f
    CLEAR_ZMM
24:
    testl   ${F_POINTERS}, {B_FLAGS}(%r10)
    jz      25f
    REBASE_ARGUMENT 0, %rdi, %edi
    REBASE_ARGUMENT 1, %rsi, %esi
    REBASE_ARGUMENT 2, %rdx, %edx
    REBASE_ARGUMENT 3, %rcx, %ecx
    REBASE_ARGUMENT 4, %r8, %r8d
    REBASE_ARGUMENT 5, %r9, %r9d
25:
    pop     %rax
    pop     %r13
    pop     %r12
    pop     %rbx
    ret
# No copy: the callee gets the arguments' address, checked, in its TCB page.
18:
    mov     {B_BASE}(%r10), %rax
    mov     %r13, {TCB_CLIENT_STACK}(%rax)
    jmp     20b
19:
    pop     %rax
    pop     %r13
    pop     %r12
    pop     %rbx
    lea     8(%rsp), %rsp
    mov     ${E_ARGUMENTS}, %eax
# Nothing of the callee ran. eax: status.
sfi_refused_\v:
    mov     16(%rsp), %rcx
    mov     32(%rsp), %rsi
    mov     %rsi, {D_SP}(%rcx)
    mov     %eax, %gs:{TCB_ERROR}
    mov     {B_ON_FAULT}(%r10), %rax
    mov     56(%rsp), %r15
    lea     104(%rsp), %rsp
    jmp     sfi_results_int_all_\v

# The way out. rax: the result; the frame lies behind the return address.
    .p2align 4
sfi_way_out_\v:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      16f
    stmxcsr {C_SCRATCH}(%r11)
    mov     {C_SCRATCH}(%r11), %ecx
    cmp     8+52(%rsp), %ecx
    je      16f
    ldmxcsr 8+52(%rsp)
16:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      24f
    RESET_X87
    fldcw   8+48(%rsp)
24:
    testl   ${F_ZMM_OUT}, {B_FLAGS}(%r10)
    jz      25f
    CLEAR_ZMM
25:
    testl   ${F_POINTER_RESULT}, {B_FLAGS}(%r10)
    jz      26f
    REBASE  %rax, %eax, 8+40(%rsp)
26:
    ret

# The callee's (rax) stack pointer is 0: it is dead, or active and not usable. Nothing of the callee ran.
sfi_refuse_\v:
    mov     {D_DEAD}(%rax), %eax
    mov     ${E_REFUSED}, %r15d
    test    %eax, %eax
    cmovz   %r15d, %eax
    cmp     ${E_DEAD}, %eax
    jne     sfi_refused_\v
    cmpq    $0, {C_REVIVE}(%r11)
    je      sfi_refused_\v
# The world restarts dead domains: everything becomes as at the gate's entry, the arguments are kept, and a host
# function is called, which gets the binding. If it restarted the callee the call begins again, else it fails.
    mov     32(%rsp), %rax
    mov     16(%rsp), %r15
    mov     %rax, {D_SP}(%r15)
    mov     56(%rsp), %r15
    lea     -80(%rsp), %rsp
    mov     %rdi, 0(%rsp)
    mov     %rsi, 8(%rsp)
    mov     %rdx, 16(%rsp)
    mov     %rcx, 24(%rsp)
    mov     %r8, 32(%rsp)
    mov     %r9, 40(%rsp)
    .irp n,0,1,2,3,4,5,6,7
    movups  %xmm\n, 48+16*\n(%rsp)
    .endr
    mov     %r10, 176(%rsp)
    mov     %r10, %rdi
    mov     {C_REVIVE}(%r11), %r10
    call    sfi_gate_host_\v
    mov     %rsp, %r11
    and     $-{CONTROL_SIZE}, %r11
    mov     176(%rsp), %r10
    test    %rax, %rax
    jz      19f
    mov     0(%rsp), %rdi
    mov     8(%rsp), %rsi
    mov     16(%rsp), %rdx
    mov     24(%rsp), %rcx
    mov     32(%rsp), %r8
    mov     40(%rsp), %r9
    .irp n,0,1,2,3,4,5,6,7
    movups  48+16*\n(%rsp), %xmm\n
    .endr
    lea     184(%rsp), %rsp
    jmp     *{B_GATE}(%r10)
# The host function's gate has cleared everything but rax, and xmm0 is its result: 0.
19:
    movl    ${E_DEAD}, %gs:{TCB_ERROR}
    mov     {B_ON_FAULT}(%r10), %rax
    CLEAR_X \avx, 0
    xor     %r10d, %r10d
    xor     %r11d, %r11d
    lea     184(%rsp), %rsp
    ret

# The callee faulted, or faulted in a frame below that it had to return to. eax: status; rsp: the frame.
sfi_failed_\v:
    mov     %rsp, %r11
    and     $-{CONTROL_SIZE}, %r11
    mov     (%rsp), %r10
    mov     16(%rsp), %r9
    mov     %eax, %r8d
    mov     24(%rsp), %rsi
    mov     32(%rsp), %rdi
    mov     %rsi, {C_TOP}(%r11)
    mov     40(%rsp), %rax
    cmpl    $0, {D_DEAD}(%r9)
    jne     sfi_dead_\v
    SET_GS  \fsgs
    mov     %r9, {C_CURRENT}(%r11)
    mov     %rdi, {D_SP}(%r9)
    mov     %r8d, %gs:{TCB_ERROR}
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      28f
    RESET_X87
    fldcw   48(%rsp)
28:
    testl   ${F_ZMM_OUT}, {B_FLAGS}(%r10)
    jz      29f
    CLEAR_ZMM
29:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      17f
    ldmxcsr 52(%rsp)
17:
    testl   ${F_SAVED}, {B_FLAGS}(%r10)
    jz      27f
    RESTORE
27:
    mov     {B_ON_FAULT}(%r10), %rax
    mov     56(%rsp), %r15
    lea     104(%rsp), %rsp
    jmp     sfi_results_int_all_\v

# The caller (r9) of the frame at rsp (binding in r10) died while its callee ran: its own frame fails. context.top is the
# frame that entered the caller. MXCSR becomes the caller's, as a return would have done, and so do the registers that the frame saved: the
# frame that fails may not have saved them, because the caller does not name them. GS is not the caller's here (its base is in rax), and the
# frame that fails sets its own or leaves to the host.
sfi_dead_\v:
    testl   ${F_SAVED}, {B_FLAGS}(%r10)
    jz      27f
    RESTORE
27:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      18f
    ldmxcsr 52(%rsp)
18:
    mov     %r9, {C_CURRENT}(%r11)
    SET_GS  \fsgs
    mov     {C_TOP}(%r11), %rsp
    mov     (%rsp), %r10
    mov     ${E_DEAD}, %eax
    jmp     *{B_FAILED}(%r10)
.endm
