# The intermediaries (Yarvin et al. section 3.2.2; Wahbe et al. section 4).
#
# Why nothing in here can fault or be confused by a hostile domain:
# - rsp is the control stack. Only call and ret of verified text move it, so at a gate's entry it points to a return address
#   that a call of the domain pushed, and at a callee's return it is the value from before the gate's own call. The first thing
#   a gate does is compare it with the limit, below which its frames and that of a signal of the host fit.
# - r10 and r11 come from a stub, which is entered at its first instruction only; everything else that is read or written is found
#   through r11: the context, domain states, bindings, frames. They lie outside every window.
# - r15 is the one register of a domain that a gate uses as an address: truncated to 32 bits, rebased to the domain's window and
#   compared with the bounds of its data stack, which stays mapped read-write while the domain lives.
# - ldmxcsr and fldcw load values that stmxcsr and fnstcw stored; x87 state is reset by the no-wait forms first.
# None of that depends on a trust level: those only choose which registers are cleared, saved and restored.
#
# Which registers a crossing clears is decided by `crossing.rs`: those that the text about to run names, whoever left something in
# them. What a text does not name it neither sees nor changes, so it passes through it untouched: the registers rbx, rbp, r12-r14 of a
# frame whose binding has not the flag SAVED are still the caller's, whatever happened above. So on every way out of a frame, the
# irregular ones too, the registers that it saved are put back before a frame below goes on.
#
# MXCSR: a domain whose verified text does not name it runs with the default control bits and cannot see the status flags, so between
# two such domains there is nothing to do. Where a side names it, it is saved, set to the default and restored. Host functions
# preserve the control bits and may change the flags (psABI 3.2.3). stmxcsr and ldmxcsr are rare because a stmxcsr behind an ldmxcsr
# takes 80 ns.
#
# A frame on the control stack, at context.top while its callee runs:
#     0 binding   8 entry   16 caller   24 caller's context.top   32 caller's sp   40 caller's base   48 x87 control word
#     52 MXCSR   56 r15   64 r14   72 r13   80 r12   88 rbp   96 rbx   104 return address
# An entry from the host has the first two words only; the rest is on the host's stack.

    .text
    .globl  sfi_gates_begin
    .hidden sfi_gates_begin
sfi_gates_begin:

# vpxor of an xmm register zeroes all of its zmm register.
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

# All of zmm16-31 and k0-k7.
.macro CLEAR_ZMM
    .irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vpxorq  %zmm\n, %zmm\n, %zmm\n
    .endr
    .irp n,0,1,2,3,4,5,6,7
    kxorw   %k\n, %k\n, %k\n
    .endr
.endm

# Zeroes the eight x87 registers (MMX included), the instruction and data pointers, the status and tag words; default control
# word. The first fninit empties the stack and masks the exceptions that fldz could raise.
.macro RESET_X87
    fninit
    .rept 8
    fldz
    .endr
    fninit
.endm

# Makes register \r a pointer into the window whose base is in \base; null stays null.
.macro REBASE r, r32, base
    test    \r, \r
    jz      8f
    mov     \r32, \r32
    or      \base, \r
8:
.endm

# One argument register that a binding may declare to be a pointer.
.macro REBASE_ARGUMENT i, r, r32
    testb   $(1 << \i), {B_POINTERS}(%r10)
    jz      7f
    REBASE  \r, \r32, {B_BASE}(%r10)
7:
.endm

# The preserved registers but r15 to and from the frame at rsp.
.macro SAVE
    mov     %rbx, 96(%rsp)
    mov     %rbp, 88(%rsp)
    mov     %r12, 80(%rsp)
    mov     %r13, 72(%rsp)
    mov     %r14, 64(%rsp)
.endm
.macro RESTORE
    mov     96(%rsp), %rbx
    mov     88(%rsp), %rbp
    mov     80(%rsp), %r12
    mov     72(%rsp), %r13
    mov     64(%rsp), %r14
.endm

# The way into a function of a domain, called by the gates with the entry behind the return address. Clears the argument registers
# behind the first \n integers (0-6) and all but the low halves of the first \m vector registers (0-8), or all but xmm0-xmm7 (9), or no
# vector register (10).
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
    jmp     *16(%rsp)
.endm

# The way back into a domain; rsp is at its return address. Passes rax if \rax, rdx if \rdx. Vector registers, if any is cleared (\clear):
# xmm0 and xmm1 pass in \whole, the low half of xmm0 if \low.
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
    CLEAR_X \avx, 1
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
