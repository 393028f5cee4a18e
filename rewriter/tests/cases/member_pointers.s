# A pointer to a member function is odd if it is an offset in a table of virtual functions. The test
# of a known function's address is not taken.
.globl f
.type f,@function
f:  lea local(%rip),%rdx
    test $1,%dl
    je 1f
    mov (%rdi),%rax
    mov -1(%rax,%rdx),%rdx
1:  jmp *%rdx
.size f,.-f
.type local,@function
local: ret
.size local,.-local
