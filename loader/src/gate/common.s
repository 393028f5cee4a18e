# The intermediaries (Yarvin et al. section 3.2.2; Wahbe et al. section 4).
#
# Why nothing in here can fault or be confused by a hostile domain:
# - rsp is the control stack. Only call and ret of verified text move it, so at a gate's entry it points to a return address
#   that a call of the domain pushed, and at a callee's return it is the value from before the gate's own call. The first thing
#   a gate does is compare it with the limit, below which CONTROL_RESERVE bytes are mapped.
# - r10 and r11 come from a stub, which is entered at its first instruction only; everything else that is read or written is found
#   through r11: the context, domain states, bindings, frames. They lie outside every window.
# - r15 is the one register of a domain that a gate uses as an address: truncated to 32 bits, rebased to the domain's window and
#   compared with the bounds of its data stack, which stays mapped read-write while the domain lives.
# - ldmxcsr and fldcw load values that stmxcsr and fnstcw stored; x87 state is reset by the no-wait forms first.
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

# r14 = 16-byte aligned data stack pointer of the caller (state in rbx) or 0 when r15 is outside its data stack.
# r15 itself: truncated and rebased. Both bounds are addresses of the window.
.macro CALLER_STACK
    mov     %r15d, %r15d
    or      {D_BASE}(%rbx), %r15
    xor     %r14d, %r14d
    cmp     {D_STACK_LOW}(%rbx), %r15
    jb      9f
    cmp     {D_STACK_HIGH}(%rbx), %r15
    ja      9f
    mov     %r15, %r14
    and     $-16, %r14
9:
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
    REBASE  \r, \r32, {D_BASE}(%rbp)
7:
.endm

# Argument clearing: for every count of declared integers (0-6) and floats (0-8; 9: undeclared, all stay).
.macro ARGUMENTS v, avx, n, m
sfi_args_\v\()_\n\m:
    .if \m < 9
    .irp k,0,1,2,3,4,5,6,7
    .if \k < \m
    LOW_X   \avx, \k
    .else
    CLEAR_X \avx, \k
    .endif
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
    jmp     sfi_call_\v
.endm
