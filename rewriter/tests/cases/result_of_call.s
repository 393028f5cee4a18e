# rax holds no value before a call of a local function that writes it, unless that function saves
# rax.
.globl f
.type f,@function
f:
    mov (%rdi),%rax
    mov %rax,(%rsi)
    push 8(%rdi)
    call writes
    add $8,%rsp
    add %rax,%rdx
    mov (%rdi),%rax
    mov %rax,(%rsi)
    push 8(%rdi)
    call saves
    add $8,%rsp
    add %rax,%rdx
    ret
.size f,.-f
.type writes,@function
writes:
    mov (%rsi),%rax
    ret
.size writes,.-writes
.type saves,@function
saves:
    push %rax
    mov (%rsi),%rax
    mov %rax,(%rdi)
    pop %rax
    ret
.size saves,.-saves
