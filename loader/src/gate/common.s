# The gates (Yarvin et al. section 3.2.2, where they are intermediaries; Wahbe et al. section 4).
#
# No instruction here can fault or be misled by a hostile domain:
# - rsp is the control stack. Only call and ret of verified text move it. So at a gate's entry it
#   points to a return address that a call of the domain pushed, and at a callee's return it has the
#   value from before the gate's own call. First of all a gate compares it with the limit. Below the
#   limit there is room for the gate's frames and for the frame of a signal of the host.
# - r10 and r11 come from a stub, which is entered at its first instruction only. A gate finds
#   everything else that it reads or writes through r11: the context, domain states, bindings,
#   frames. They lie outside every window.
# - r15 is the one register of a domain that a gate uses as an address. The gate truncates it to 32
#   bits, rebases it to the domain's window and compares it with the bounds of the domain's data
#   stack, which stays mapped read-write while the domain lives.
# - ldmxcsr and fldcw load values that stmxcsr and fnstcw stored, or the defaults. No x87 exception
#   is pending then, because fninit, which does not wait, or a look at the status word comes first.
#   None of that depends on a trust level. Levels only choose the registers that are cleared,
#   saved and restored.
#
# world/bindings/policy.rs decides which registers a crossing clears: those that the text about to
# run names, whatever domain left values in them. A text neither sees nor changes a register that it
# does not name. The register passes through the text untouched and may hold the value of another
# domain. So all frames are left on one path, `sfi_leave`, which puts back and clears one set of
# state for every reason: the callee returned or failed, or the caller died meanwhile and the frame
# is abandoned for the one that entered the caller. A return that needs none of that takes a short
# cut in its gate. The host's entry has a path of its own, also one for all reasons.
#
# MXCSR: a domain whose verified text does not name it runs with the default control bits and cannot
# see the status flags. Between two such domains there is nothing to do. If a side names it, the
# gate saves it, sets it to the default and restores it. Host functions preserve the control bits
# and may change the flags (psABI 3.2.3). stmxcsr and ldmxcsr are rare here because a stmxcsr after
# an ldmxcsr takes 80 ns.
#
# The frames are records of gate/frame.rs. An entry from the host is a `HostEntry` (ENTRY_*). Any
# other crossing is a `Frame` (FRAME_*), whose last word is the return address that the domain's
# call pushed. Their callee runs below.

    .text
    .globl  sfi_gates_begin
    .hidden sfi_gates_begin
sfi_gates_begin:

# vpxor of an xmm register zeroes its whole zmm register.
.macro CLEAR_X avx, n
.if \avx
    vpxor   %xmm\n, %xmm\n, %xmm\n
.else
    pxor    %xmm\n, %xmm\n
.endif
.endm

# Keeps the low 64 bits.
.macro LOW_X avx, n
.if \avx
    vmovq   %xmm\n, %xmm\n
.else
    movq    %xmm\n, %xmm\n
.endif
.endm

# Keeps the low 128 bits of every register.
.macro LOW_ALL avx
.if \avx
    vzeroupper
.endif
.endm

# GS base = rax. Clobbers nothing else.
.macro SET_GS fsgs
.if \fsgs
    wrgsbase %rax
.else
    call    sfi_set_gs
.endif
.endm

# Zeroes zmm16-31 and k0-k7.
.macro CLEAR_ZMM
    .irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vpxorq  %zmm\n, %zmm\n, %zmm\n
    .endr
    .irp n,0,1,2,3,4,5,6,7
    kxorw   %k\n, %k\n, %k\n
    .endr
.endm

# Resets x87 state (MMX included): the stack is empty, all registers hold the same value, which
# belongs to nobody, the status word is zero, and the control word is the default one. r11 is the
# context. Changes rax, because the status word takes longer by way of memory. \keep is a register
# that keeps it meanwhile. fninit takes 30 ns, and mostly there is nothing for it to do: the status
# word is zero if nobody computed since the last reset. Then no exception is pending, so that pxor
# does not trap. What fninit hides besides, the addresses of the last x87 instruction and of its
# operand, only some texts can see. pxor writes all bits of a register: 64 zeros below 16 ones (SDM
# volume 1, section 9.6.1).
.macro RESET_X87 keep
    .ifnb \keep
    mov     %rax, \keep
    .endif
    cmpl    $0, {C_X87_PLACES}(%r11)
    jne     91f
    fnstsw  %ax
    test    %ax, %ax
    je      92f
91:
    fninit
92:
    fldcw   sfi_default_cw(%rip)
    .irp n,0,1,2,3,4,5,6,7
    pxor    %mm\n, %mm\n
    .endr
    emms
    .ifnb \keep
    mov     \keep, %rax
    .endif
.endm

# Makes register \r a pointer into the window whose base is in \base. Null stays null, and common
# addresses of regions that the receiving domain sees stay what they are. An offset in the block of
# the receiver's dispatch table stays a bare offset: no pointer of the receiver's own means that
# block, so that REFUSE_CODE never takes a pointer that comes back for one to its code. \low: the
# register's low byte. Changes r11.
.macro REBASE r, r32, low, base, domain
    test    \r, \r
    jz      5f
    rol     $32, \r
    movzbl  \low, %r11d
    cmp     \r32, {D_REGIONS}(\domain,%r11,4)
    je      6f
    shr     $32, \r
    mov     \r32, %r11d
    xor     {D_DISPATCH}(\domain), %r11d
    cmp     ${BLOCK}, %r11d
    jb      5f
    or      \base, \r
    jmp     5f
6:
    rol     $32, \r
5:
.endm

# Rebases an integer argument register if the binding declares it to be a pointer. rax is the
# callee.
.macro REBASE_ARGUMENT i, r, r32, low
    testb   $(1 << \i), {B_POINTERS}(%r10)
    jz      7f
    REBASE  \r, \r32, \low, {B_BASE}(%r10), %rax
7:
.endm

# Goes to \to if register \r is the address of a place of the dispatch table of \domain, whose
# pointer it is: function pointers do not cross as pointers. The receiver's table is not
# compared, because the answer would tell the sender where that table lies. Clobbers rax.
.macro REFUSE_CODE r, r32, domain, to
    mov     \r32, %eax
    sub     {D_DISPATCH}(\domain), %eax
    cmp     {D_DISPATCH_SIZE}(\domain), %eax
    jae     8f
    mov     \r, %rax
    shr     $32, %rax
    cmp     {D_TEXT_HIGH}(\domain), %eax
    je      \to
8:
.endm
.macro REFUSE_CODE_ARGUMENT i, r, r32, domain, to
    testb   $(1 << \i), {B_POINTERS}(%r10)
    jz      7f
    REFUSE_CODE \r, \r32, \domain, \to
7:
.endm

# Makes a frame, or traps if the control stack has no room for it. rsp points to the return address,
# and afterwards to the frame.
.macro NEW_FRAME
    cmp     {C_LIMIT}(%r11), %rsp
    jb      sfi_trap_control
    lea     -{FRAME_RETURN}(%rsp), %rsp
.endm

# Drops a frame of a domain that goes on: restores its r15, and rsp points to its return address.
.macro DROP_FRAME
    mov     {FRAME_R15}(%rsp), %r15
    lea     {FRAME_RETURN}(%rsp), %rsp
.endm

# r11 = the context.
.macro FIND_CONTEXT
    mov     %rsp, %r11
    and     $-{CONTROL_SIZE}, %r11
.endm

# Makes r15 the calling domain's data stack pointer for calls back: its address, aligned, if it lies
# in the domain's data stack. Otherwise goes to \none, which sets it to 0. Both bounds are addresses
# in the window.
.macro DATA_STACK domain, none
    cmp     {D_STACK_LOW}(\domain), %r15
    jb      \none
    cmp     {D_STACK_HIGH}(\domain), %r15
    ja      \none
    and     $-16, %r15
.endm

# Save and restore the preserved registers but r15. The frame lies \below bytes above rsp.
.macro SAVE below=0
    mov     %rbx, \below+{FRAME_RBX}(%rsp)
    mov     %rbp, \below+{FRAME_RBP}(%rsp)
    mov     %r12, \below+{FRAME_R12}(%rsp)
    mov     %r13, \below+{FRAME_R13}(%rsp)
    mov     %r14, \below+{FRAME_R14}(%rsp)
.endm
.macro RESTORE below=0
    mov     \below+{FRAME_RBX}(%rsp), %rbx
    mov     \below+{FRAME_RBP}(%rsp), %rbp
    mov     \below+{FRAME_R12}(%rsp), %r12
    mov     \below+{FRAME_R13}(%rsp), %r13
    mov     \below+{FRAME_R14}(%rsp), %r14
.endm

# Store and load the integer argument registers, as six words.
.macro STORE_INTS at, base
    mov     %rdi, \at+0*{WORD}(\base)
    mov     %rsi, \at+1*{WORD}(\base)
    mov     %rdx, \at+2*{WORD}(\base)
    mov     %rcx, \at+3*{WORD}(\base)
    mov     %r8, \at+4*{WORD}(\base)
    mov     %r9, \at+5*{WORD}(\base)
.endm
.macro LOAD_INTS at, base
    mov     \at+0*{WORD}(\base), %rdi
    mov     \at+1*{WORD}(\base), %rsi
    mov     \at+2*{WORD}(\base), %rdx
    mov     \at+3*{WORD}(\base), %rcx
    mov     \at+4*{WORD}(\base), %r8
    mov     \at+5*{WORD}(\base), %r9
.endm

# Keeps the arguments and the binding of a call in a `Kept` at rsp, and passes the binding to a host
# function.
.macro KEEP_CALL
    STORE_INTS {KEPT_INTS}, %rsp
    .irp n,0,1,2,3,4,5,6,7
    movups  %xmm\n, {KEPT_VECTORS}+2*{WORD}*\n(%rsp)
    .endr
    mov     %r10, {KEPT_BINDING}(%rsp)
    mov     %r10, %rdi
.endm

# Brings the arguments back and drops the record. The call begins again.
.macro BRING_CALL
    LOAD_INTS {KEPT_INTS}, %rsp
    .irp n,0,1,2,3,4,5,6,7
    movups  {KEPT_VECTORS}+2*{WORD}*\n(%rsp), %xmm\n
    .endr
    lea     {KEPT}(%rsp), %rsp
.endm

# Ends the call instead. eax is the status, r10 the binding, r11 the context. The host function's
# gate has cleared everything else, and the other results are 0, because the function sets none.
.macro REFUSE_CALL
    mov     {C_CURRENT}(%r11), %r11
    mov     {D_TCB}(%r11), %r11
    mov     %eax, {TCB_ERROR}(%r11)
    mov     {B_ON_FAULT}(%r10), %rax
    xor     %r10d, %r10d
    xor     %r11d, %r11d
    lea     {KEPT}(%rsp), %rsp
    ret
.endm

# The way into a function of a domain. A gate calls it, with the function's address in the frame
# after the return address. Clears the argument registers after the first \n integers (0-6), and all
# but the low halves of the first \m vector registers (0-8), or all but xmm0-xmm7 (9), or no vector
# register (10).
.macro ARGUMENTS v, avx, n, m
    .p2align 4
sfi_args_\v\()_\n\m:
    .if \m < 10
    LOW_ALL \avx
    .if \m < 9
    .irp k,0,1,2,3,4,5,6,7
    .if \k < \m
    LOW_X   \avx, \k
    .else
    CLEAR_X \avx, \k
    .endif
    .endr
    .endif
    .irp k,8,9,10,11,12,13,14,15
    CLEAR_X \avx, \k
    .endr
    .endif
    .if \n < 1
    xor     %edi, %edi
    .endif
    .if \n < 2
    xor     %esi, %esi
    .endif
    .if \n < 3
    xor     %edx, %edx
    .endif
    .if \n < 4
    xor     %ecx, %ecx
    .endif
    .if \n < 5
    xor     %r8d, %r8d
    .endif
    .if \n < 6
    xor     %r9d, %r9d
    .endif
    xor     %eax, %eax
    xor     %r10d, %r10d
    xor     %r11d, %r11d
    jmp     *{WORD}+{FRAME_ENTRY}(%rsp)
.endm

# The way back into a domain. rsp points to its return address. Passes rax if \rax and rdx if \rdx.
# If \clear, it clears vector registers: xmm0 and xmm1 pass if \whole, the low half of xmm0 if \low,
# and that of xmm1 too if \low is 2.
.macro RESULTS v, avx, name, rax, rdx, clear, whole, low
    .p2align 4
sfi_results_\name\()_\v:
    .if \clear
    LOW_ALL \avx
    .if !\whole
    .if \low
    LOW_X   \avx, 0
    .else
    CLEAR_X \avx, 0
    .endif
    .if \low > 1
    LOW_X   \avx, 1
    .else
    CLEAR_X \avx, 1
    .endif
    .endif
    .irp n,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    CLEAR_X \avx, \n
    .endr
    .endif
    .if !\rax
    xor     %eax, %eax
    .endif
    .if !\rdx
    xor     %edx, %edx
    .endif
    xor     %ecx, %ecx
    xor     %esi, %esi
    xor     %edi, %edi
    xor     %r8d, %r8d
    xor     %r9d, %r9d
    xor     %r10d, %r10d
    xor     %r11d, %r11d
    ret
.endm
