# domain to domain

.macro GATE_DOMAIN v, avx, fsgs
    .p2align 6
sfi_gate_domain_\v:
    cmp     {C_LIMIT}(%r11), %rsp
    jb      sfi_trap_control
    lea     -104(%rsp), %rsp
    mov     %rbx, 96(%rsp)
    mov     %rbp, 88(%rsp)
    mov     %r12, 80(%rsp)
    mov     %r13, 72(%rsp)
    mov     %r14, 64(%rsp)
    mov     %r15, 56(%rsp)
    mov     {C_CURRENT}(%r11), %rbx
    mov     {B_CALLEE}(%r10), %rbp
    mov     {C_TOP}(%r11), %rax
    mov     {B_ENTRY}(%r10), %r12
    mov     {D_SP}(%rbx), %r13
    mov     %r10, (%rsp)
    mov     %r12, 8(%rsp)
    mov     %rbx, 16(%rsp)
    mov     %rax, 24(%rsp)
    mov     %r13, 32(%rsp)
    mov     {D_BASE}(%rbx), %r13
    mov     %r13, 40(%rsp)
    CALLER_STACK
    mov     %r14, {D_SP}(%rbx)
    mov     {D_SP}(%rbp), %rax
    test    %rax, %rax
    jz      sfi_refuse_\v
    testl   ${F_IN}, {B_FLAGS}(%r10)
    jnz     10f
11:
    mov     %rax, %r15
    mov     {B_BASE}(%r10), %rax
    SET_GS  \fsgs
    mov     %rbp, {C_CURRENT}(%r11)
    mov     %rsp, {C_TOP}(%r11)
    LOW_ALL \avx
    .irp n,8,9,10,11,12,13,14,15
    CLEAR_X \avx, \n
    .endr
    jmp     *{B_ARGUMENTS}(%r10)
    .p2align 4
sfi_call_\v:
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
    mov     (%rsp), %r10
    mov     16(%rsp), %rbx
    mov     {B_RESULTS}(%r10), %r9
    mov     %rax, %r8
    mov     24(%rsp), %rsi
    mov     32(%rsp), %rdi
    mov     %rsi, {C_TOP}(%r11)
    mov     40(%rsp), %rax
    cmpl    $0, {D_DEAD}(%rbx)
    jne     sfi_dead_\v
    SET_GS  \fsgs
    mov     %rbx, {C_CURRENT}(%r11)
    mov     %rdi, {D_SP}(%rbx)
    testl   ${F_OUT}, {B_FLAGS}(%r10)
    mov     %r8, %rax
    jnz     14f
15:
    jmp     *%r9
    .p2align 4
sfi_return_\v:
    LOW_ALL \avx
    .irp n,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    CLEAR_X \avx, \n
    .endr
    mov     96(%rsp), %rbx
    mov     88(%rsp), %rbp
    mov     80(%rsp), %r12
    mov     72(%rsp), %r13
    mov     64(%rsp), %r14
    mov     56(%rsp), %r15
    xor     %ecx, %ecx
    xor     %esi, %esi
    xor     %edi, %edi
    xor     %r8d, %r8d
    xor     %r9d, %r9d
    xor     %r10d, %r10d
    xor     %r11d, %r11d
    lea     104(%rsp), %rsp
    ret

# The way in, beside the common path. rax: the callee's data stack pointer; r14: the caller's or 0.
10:
    testl   ${F_STACK}, {B_FLAGS}(%r10)
    jz      20f
    test    %r14, %r14
    jz      sfi_bad_arguments_\v
    mov     {B_STACK_WORDS}(%r10), %r12d
    lea     (%r15,%r12,8), %r13
    cmp     {D_STACK_HIGH}(%rbx), %r13
    ja      sfi_bad_arguments_\v
    lea     1(%r12), %r13
    and     $-2, %r13
    shl     $3, %r13
    sub     %r13, %rax
    cmp     {D_STACK_LOW}(%rbp), %rax
    jb      sfi_bad_arguments_\v
21:
    mov     -8(%r15,%r12,8), %r13
    mov     %r13, -8(%rax,%r12,8)
    dec     %r12
    jnz     21b
20:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      12f
    stmxcsr 52(%rsp)
    cmpl    ${MXCSR}, 52(%rsp)
    je      12f
    ldmxcsr sfi_default_mxcsr(%rip)
12:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      22f
    fnstcw  48(%rsp)
    RESET_X87
22:
    testl   ${F_ZMM_IN}, {B_FLAGS}(%r10)
    jz      23f
    CLEAR_ZMM
23:
    testl   ${F_POINTERS}, {B_FLAGS}(%r10)
    jz      11b
    REBASE_ARGUMENT 0, %rdi, %edi
    REBASE_ARGUMENT 1, %rsi, %esi
    REBASE_ARGUMENT 2, %rdx, %edx
    REBASE_ARGUMENT 3, %rcx, %ecx
    REBASE_ARGUMENT 4, %r8, %r8d
    REBASE_ARGUMENT 5, %r9, %r9d
    jmp     11b

# The way out, beside the common path. rax: the result.
14:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      16f
    stmxcsr {C_SCRATCH}(%r11)
    mov     {C_SCRATCH}(%r11), %ecx
    cmp     52(%rsp), %ecx
    je      16f
    ldmxcsr 52(%rsp)
16:
    testl   ${F_X87}, {B_FLAGS}(%r10)
    jz      24f
    RESET_X87
    fldcw   48(%rsp)
24:
    testl   ${F_ZMM_OUT}, {B_FLAGS}(%r10)
    jz      25f
    CLEAR_ZMM
25:
    testl   ${F_POINTER_RESULT}, {B_FLAGS}(%r10)
    jz      15b
    REBASE  %rax, %eax, {D_BASE}(%rbx)
    jmp     15b

# Results: what the signature does not name is cleared.
sfi_results_any_\v:
    jmp     sfi_return_\v
sfi_results_void_\v:
    xor     %eax, %eax
sfi_results_int_\v:
    xor     %edx, %edx
    CLEAR_X \avx, 0
    CLEAR_X \avx, 1
    jmp     sfi_return_\v
sfi_results_float_\v:
    xor     %eax, %eax
    xor     %edx, %edx
    LOW_X   \avx, 0
    CLEAR_X \avx, 1
    jmp     sfi_return_\v

# The callee's stack pointer is 0: it is dead, or active and not usable. Nothing of the callee ran.
sfi_refuse_\v:
    mov     ${E_REFUSED}, %r12d
    mov     {D_DEAD}(%rbp), %eax
    test    %eax, %eax
    cmovz   %r12d, %eax
    cmp     ${E_DEAD}, %eax
    jne     26f
    cmpq    $0, {C_REVIVE}(%r11)
    jne     sfi_revive_\v
    jmp     26f
sfi_bad_arguments_\v:
    mov     ${E_ARGUMENTS}, %eax
26:
    mov     32(%rsp), %r13
    mov     %r13, {D_SP}(%rbx)
    mov     %eax, %gs:{TCB_ERROR}
    mov     {B_ON_FAULT}(%r10), %rax
    xor     %edx, %edx
    jmp     27f

# The callee faulted, or faulted in a frame below that it had to return to. eax: status; rsp: the frame.
sfi_failed_\v:
    mov     %rsp, %r11
    and     $-{CONTROL_SIZE}, %r11
    mov     (%rsp), %r10
    mov     16(%rsp), %rbx
    mov     %eax, %r8d
    mov     24(%rsp), %rsi
    mov     32(%rsp), %rdi
    mov     %rsi, {C_TOP}(%r11)
    mov     {D_BASE}(%rbx), %rax
    cmpl    $0, {D_DEAD}(%rbx)
    jne     sfi_dead_\v
    SET_GS  \fsgs
    mov     %rbx, {C_CURRENT}(%r11)
    mov     %rdi, {D_SP}(%rbx)
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
    mov     {B_ON_FAULT}(%r10), %rax
    xor     %edx, %edx
27:
    CLEAR_X \avx, 0
    CLEAR_X \avx, 1
    jmp     sfi_return_\v

# The callee is dead and the world restarts domains: everything becomes as at the gate's entry, the arguments are kept, and a host
# function is called, which gets the binding. If it restarted the callee the call begins again, else it fails.
sfi_revive_\v:
    mov     32(%rsp), %rax
    mov     %rax, {D_SP}(%rbx)
    mov     96(%rsp), %rbx
    mov     88(%rsp), %rbp
    mov     80(%rsp), %r12
    mov     72(%rsp), %r13
    mov     64(%rsp), %r14
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
    jmp     sfi_gate_domain_\v
# The host function's gate has cleared everything but rax, and xmm0 is its result: 0.
19:
    movl    ${E_DEAD}, %gs:{TCB_ERROR}
    mov     {B_ON_FAULT}(%r10), %rax
    CLEAR_X \avx, 0
    xor     %r10d, %r10d
    xor     %r11d, %r11d
    lea     184(%rsp), %rsp
    ret

# The caller (rbx) of the frame at rsp (binding in r10) died while its callee ran: its own frame fails. context.top is the
# frame that entered the caller. MXCSR becomes the caller's, as a return would have done. GS is not the caller's here, and the frame that fails sets its own or leaves to the host.
sfi_dead_\v:
    testl   ${F_MXCSR}, {B_FLAGS}(%r10)
    jz      18f
    ldmxcsr 52(%rsp)
18:
    mov     %rbx, {C_CURRENT}(%r11)
    SET_GS  \fsgs
    mov     {C_TOP}(%r11), %rsp
    mov     (%rsp), %r10
    mov     ${E_DEAD}, %eax
    jmp     *{B_FAILED}(%r10)
.endm
