# Worlds with budgets. The bindings of their domains reach the code that clears registers through
# this code (`Binding::metered`). It charges the time since the last crossing to the side that is
# left. fault/meter.rs handles the charges. No instruction waits for rdtsc or orders it, so a few
# instructions are charged to the other side. r10 is the binding, r11 the context.

# Puts the time since context.since into rax and the counter into rdx. Jumps to 1 if the time is
# negative, because another processor's counter is behind. Clobbers rcx.
.macro METER
    rdtsc
    shl     $32, %rdx
    or      %rax, %rdx
    mov     {C_SINCE}(%r11), %rcx
    mov     %rdx, {C_SINCE}(%r11)
    mov     %rdx, %rax
    sub     %rcx, %rax
    jb      1f
    add     %rax, {C_TICKS}(%r11)
.endm

# Charges rax to the domain in rcx. Every LOOK_PERIOD ticks it compares charges and waits.
.macro CHARGE
    add     %rax, {D_TICKS}(%rcx)
    cmp     {C_LOOK}(%r11), %rdx
    jae     2f
1:
.endm

# Replaces Binding::arguments. Counts the crossing for the caller. The frame lies after the gate's
# return address. rax is free.
    .globl  sfi_meter_arguments
    .hidden sfi_meter_arguments
    .p2align 4
sfi_meter_arguments:
    push    %rdx
    push    %rcx
    mov     3*{WORD}+{FRAME_CALLER}(%rsp), %rcx
    incq    {D_CROSSINGS}(%rcx)
    METER
    mov     3*{WORD}+{FRAME_CALLER}(%rsp), %rcx
    CHARGE
    pop     %rcx
    pop     %rdx
    jmp     *{B_METERED}(%r10)
2:
    call    sfi_meter_look
    jmp     1b

# Replaces Binding::results. rax and rdx may be results. Of the other registers rcx, rsi, rdi, r8
# and r9 are free.
    .globl  sfi_meter_results
    .hidden sfi_meter_results
    .p2align 4
sfi_meter_results:
    mov     %rax, %r8
    mov     %rdx, %r9
    METER
    mov     {B_SERVER}(%r10), %rcx
    CHARGE
    mov     %r8, %rax
    mov     %r9, %rdx
    jmp     *({B_METERED}+{WORD})(%r10)
2:
    call    sfi_meter_look
    jmp     1b

# `look` of fault/meter.rs without a call of Rust code, which could change vector registers. Reads
# the thread's clock. If the thread waited since the last time, the domain in rcx gets back the
# wait, but no more than the rax ticks of its turn. The rest is left for `settle`. rdx is the
# counter. Clobbers rax, rcx and rdx.
    .p2align 4
sfi_meter_look:
    push    %rdi
    push    %rsi
    push    %r11
    push    %rcx
    push    %rax
    add     ${LOOK_PERIOD}, %rdx
    mov     %rdx, {C_LOOK}(%r11)
    mov     ${THREAD_CLOCK}, %edi
    lea     {C_ANSWER}(%r11), %rsi
    mov     ${SYS_CLOCK}, %eax
    syscall
    pop     %rdi
    pop     %rsi
    pop     %r11
    test    %eax, %eax
    jnz     4f
    imul    $1000000000, {C_ANSWER}(%r11), %rax
    add     {C_ANSWER}+{WORD}(%r11), %rax
    mov     %rax, %rcx
    sub     {C_LOOK_CLOCK}(%r11), %rax
    mov     %rcx, {C_LOOK_CLOCK}(%r11)
    mulq    {C_PACE}(%r11)
    shrd    $32, %rdx, %rax
    mov     {C_TICKS}(%r11), %rdx
    mov     %rdx, %rcx
    sub     {C_LOOK_TICKS}(%r11), %rcx
    mov     %rdx, {C_LOOK_TICKS}(%r11)
    sub     %rax, %rcx
    cmp     ${LEAST_WAIT}, %rcx
    jl      4f
    mov     %rcx, %rax
    cmp     %rdi, %rcx
    cmova   %rdi, %rcx
    add     %rcx, {D_RELIEF}(%rsi)
    sub     %rcx, %rax
    add     %rax, {C_LEFT}(%r11)
4:
    pop     %rsi
    pop     %rdi
    ret
