# Worlds with budgets. The bindings of their domains reach the code that clears registers through
# this code (`Binding::metered`). It charges the time since the last crossing to the side that is
# left. fault/meter.rs handles the charges. No instruction waits for rdtsc or orders it, so a few
# instructions are charged to the other side. r10 is the binding, r11 the context.

# Puts the time since context.since into rax. Jumps to 1 if it is negative, because another
# processor's counter is behind. Clobbers rcx and rdx.
.macro METER
    rdtsc
    shl     $32, %rdx
    or      %rdx, %rax
    mov     {C_SINCE}(%r11), %rcx
    mov     %rax, {C_SINCE}(%r11)
    sub     %rcx, %rax
    jb      1f
    add     %rax, {C_TICKS}(%r11)
.endm

# Replaces Binding::arguments. The frame lies after the gate's return address. rax is free.
    .globl  sfi_meter_arguments
    .hidden sfi_meter_arguments
    .p2align 4
sfi_meter_arguments:
    push    %rdx
    push    %rcx
    METER
    mov     3*{WORD}+{FRAME_CALLER}(%rsp), %rcx
    add     %rax, {D_TICKS}(%rcx)
1:
    pop     %rcx
    pop     %rdx
    jmp     *{B_METERED}(%r10)

# Replaces Binding::results. rax and rdx may be results. Of the other registers rcx, rsi, rdi, r8
# and r9 are free.
    .globl  sfi_meter_results
    .hidden sfi_meter_results
    .p2align 4
sfi_meter_results:
    mov     %rax, %r8
    mov     %rdx, %r9
    METER
    mov     {B_CALLEE}(%r10), %rcx
    add     %rax, {D_TICKS}(%rcx)
1:
    mov     %r8, %rax
    mov     %r9, %rdx
    jmp     *({B_METERED}+{WORD})(%r10)
