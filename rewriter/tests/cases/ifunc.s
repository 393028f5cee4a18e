# Whatever names an IFUNC leaves the choice to the loader, also a local one and a branch in the same
# section.
.globl memfn
.type memfn,@gnu_indirect_function
memfn:
.globl resolver
.type resolver,@function
resolver:
    lea one(%rip),%rax
    lea two(%rip),%rdx
    test %edi,%edi
    cmove %rdx,%rax
    ret
.size memfn,.-memfn
.type one,@function
one: mov $1,%eax
    ret
.type two,@function
two: mov $2,%eax
    ret
.type inner,@gnu_indirect_function
inner: lea one(%rip),%rax
    ret
.size inner,.-inner
.globl f
.type f,@function
f:  push %rbx
    call memfn
    call inner
    mov memfn@GOTPCREL(%rip),%rbx
    lea inner(%rip),%rax
    call resolver
    call *%rbx
    pop %rbx
    jmp memfn
.size f,.-f
.data
.quad memfn, inner, resolver
