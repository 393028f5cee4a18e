# Stores to and loads from constant addresses, in the forms of the accumulator. WebKit and others
# end by such a store.
.globl f
.type f,@function
f:  xor %eax,%eax
    movabs %eax,0xbbadbeef
    movabs %al,0x1000
    movabs %ax,0xfffffff0
    movabs %rax,0x7fffffff
    movabs 0x2000,%al
    movabs 0x2000,%eax
    movabs 0x7fffffff,%rax
    ret
.size f,.-f
