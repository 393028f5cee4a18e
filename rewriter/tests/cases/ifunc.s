# All references to an IFUNC leave the choice to the loader, even if the IFUNC is local or the
# reference is a branch in its section.
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
