# Functions that save registers in their frames, because something else needs the words, or the
# depth 0.
        .macro  function name
        .globl  \name
        .type   \name,@function
\name:  push    %rbp
        push    %rbx
        .endm
        .macro  end
        pop     %rbx
        pop     %rbp
        ret
        .endm

        # An argument on the stack.
        function argument
        mov     24(%rsp),%rax
        end

        # The return address.
        function address
        mov     16(%rsp),%rax
        end

        # A saved word is read.
        function reads
        mov     8(%rsp),%rax
        end

        # The words are found by an address.
        function points
        lea     (%rsp),%rdi
        call    other
        end

        # Another register takes a word.
        function crossed
        pop     %rbp
        pop     %rbx
        ret

        # A word is dropped.
        function drops
        pop     %rbx
        add     $8,%rsp
        ret

        # A word is dropped on one way, and loaded again on the other.
        function skips
        test    %edi,%edi
        je      6f
        add     $16,%rsp
        ret
6:      end

        # One way takes the words into other registers.
        function taken
        test    %edi,%edi
        je      7f
        pop     %rcx
        pop     %rdx
        ret
7:      end

        # Control comes back from elsewhere.
        function returns_twice
        sub     $8,%rsp
        call    setjmp
        add     $8,%rsp
        end

        # A switch: its cases are places in the dispatch table.
        function switch
        cmp     $3,%edi
        ja      1f
        mov     %edi,%edi
        lea     table(%rip),%rax
        movslq  (%rax,%rdi,4),%rdx
        add     %rax,%rdx
        jmp     *%rdx
2:      call    other
1:      end

        # A pointer leads into it.
        function inner
        test    %edi,%edi
        je      5f
        jmp     *pointer(,%rdi,8)
5:      mov     %edi,%eax
        end

        # The frame has a frame pointer.
        .globl  framed
        .type   framed,@function
framed: push    %rbp
        mov     %rsp,%rbp
        push    %rbx
        mov     16(%rbp),%rax
        pop     %rbx
        pop     %rbp
        ret

        # A call between the pushes would find another alignment.
        .globl  between
        .type   between,@function
between: push   %rbp
        call    other
        push    %rbx
        sub     $8,%rsp
        call    other
        add     $8,%rsp
        end

        # Its unlikely part is in another section.
        function unlikely
        test    %edi,%edi
        je      3f
4:      end
        .section .text.unlikely,"ax",@progbits
3:      call    other
        jmp     4b

        .data
pointer: .quad  5b,5b

        .section .rodata
        .balign 4
table:  .long   2b-table,1b-table,2b-table,1b-table
        .section .note.GNU-stack,"",@progbits
