# A call through a pointer to a member function, which is odd if it is an offset in a table of
# virtual functions. The test of a known function's address is not taken.
.globl f
.type f,@function
f:  push %rbx
    lea local(%rip),%rax
    mov $2,%ebx
1:  test $1,%al
    je 2f
    mov (%rdi),%rdx
    call *-1(%rax,%rdx)
    jmp 3f
2:  call *%rax
3:  lea local(%rip),%rax
    dec %ebx
    jne 1b
    pop %rbx
    ret
.size f,.-f
.type local,@function
local: ret
.size local,.-local
