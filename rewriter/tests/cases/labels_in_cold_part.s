# A table of labels leads to the function's unlikely part: to its beginning, which is no function,
# and into it. Only the table names these labels. The part falls off the section's end, because the
# compiler knows that no entry of it is taken.
        .globl  run
        .type   run,@function
run:    push    %r15
        push    %rbx
        mov     %rdi,%rbx
        mov     %rsi,%r15
        lea     table(%rip),%rdi
        movzbl  (%rbx),%eax
        jmp     *(%rdi,%rax,8)
.Ladd:  incq    (%r15)
        inc     %rbx
        movzbl  (%rbx),%eax
        jmp     *(%rdi,%rax,8)
.Lend:  mov     %r15,%rax
        pop     %rbx
        pop     %r15
        ret
        .size   run,.-run
        .section .text.unlikely,"ax",@progbits
        .type   run.cold,@function
run.cold:
        mov     %r10,56(%rbx)
.Lrest: mov     %r10,64(%rbx)
        .size   run.cold,.-run.cold
        .section .data.rel.ro.local,"aw"
        .balign 8
table:  .quad   .Lend,.Ladd,run.cold,.Lrest
        .section .note.GNU-stack,"",@progbits
