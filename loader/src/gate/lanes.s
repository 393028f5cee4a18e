# Worlds that several threads enter by lanes (gate/room.rs). The bindings of their domains lead here
# instead of to the gate and to the code that clears registers (`Binding::lane`). The lane's first
# call of a domain notes the place of its return address as the door's mark, and the return from
# that place takes the mark back. Calls in between find the lane inside. A return that needs no
# system call and a call by an open door cost a few plain instructions.

# Instead of Binding::gate. r10 is the binding, r11 the context, rsp points to the return address.
    .globl  sfi_lane_gate
    .hidden sfi_lane_gate
    .p2align 4
sfi_lane_gate:
    mov     {B_LANE}+2*{WORD}(%r10), %rax
    cmpq    $0, {DOOR_INSIDE}(%rax)
    jne     1f
    mov     %rsp, {DOOR_INSIDE}(%rax)
    cmpl    $0, {DOOR_CLOSED}(%rax)
    jne     2f
1:
    jmp     *{B_LANE}(%r10)
# The door is closed. The arguments are kept, and a host function gets the binding. It waits for an
# E-stack and sets the mark itself. If there is none the call fails with the function's status.
2:
    movq    $0, {DOOR_INSIDE}(%rax)
    cmp     {C_LIMIT}(%r11), %rsp
    jb      sfi_trap_control
    lea     -{KEPT}(%rsp), %rsp
    KEEP_CALL
    mov     {C_TAKE}(%r11), %r10
    call    *{B_GATE}(%r10)
    FIND_CONTEXT
    mov     {KEPT_BINDING}(%rsp), %r10
    cmp     ${E_OK}, %eax
    jne     3f
    BRING_CALL
    jmp     *{B_LANE}(%r10)
3:
    REFUSE_CALL

# Instead of Binding::results. rax and rdx may be results. Of the other registers rcx, rsi, rdi, r8
# and r9 are free. rsp points to the return address.
    .globl  sfi_lane_results
    .hidden sfi_lane_results
    .p2align 4
sfi_lane_results:
    mov     {B_LANE}+2*{WORD}(%r10), %rcx
    cmp     %rsp, {DOOR_INSIDE}(%rcx)
    jne     1f
    movq    $0, {DOOR_INSIDE}(%rcx)
    cmpl    $0, {DOOR_CLOSED}(%rcx)
    jne     2f
1:
    jmp     *({B_LANE}+{WORD})(%r10)
2:
    mov     %rax, %r8
    mov     %rdx, %r9
    mov     {B_SERVER}(%r10), %rdi
    call    sfi_lane_wake
    mov     %r8, %rax
    mov     %r9, %rdx
    jmp     1b

# Wakes the lanes that wait for the domain rdi, as `Room::wake`. Keeps r8, r9, r10.
sfi_lane_wake:
    mov     {D_ROOM}(%rdi), %rdi
    add     ${ROOM_TURN}, %rdi
    lock incl (%rdi)
    mov     ${FUTEX_WAKE}, %esi
    mov     $0x7fffffff, %edx
    mov     ${SYS_FUTEX}, %eax
    syscall
    ret

# A frame is left because its call failed. Takes back the marks of all doors below the address rdi:
# the calls there are over. Keeps rax and r10. The lanes that wait look from time to time.
sfi_lane_sweep:
    FIND_CONTEXT
    cmpq    $0, {C_TAKE}(%r11)
    je      3f
    mov     {C_DOMAINS}(%r11), %r8
1:
    test    %r8, %r8
    jz      3f
    mov     {D_DOOR}(%r8), %r9
    test    %r9, %r9
    jz      2f
    cmp     {DOOR_INSIDE}(%r9), %rdi
    jbe     2f
    movq    $0, {DOOR_INSIDE}(%r9)
2:
    mov     {D_NEXT}(%r8), %r8
    jmp     1b
3:
    ret
