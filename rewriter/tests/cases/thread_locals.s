# All models of thread locals become one access at a fixed place.
.globl f
.type f,@function
f:
    mov %fs:0x28,%rax
    mov %fs:0,%rax
    mov %eax,%fs:x@tpoff
    mov x@gottpoff(%rip),%rcx
    mov %eax,%fs:(%rcx)
    add x@gottpoff(%rip),%rcx
    lea x@tpoff(%rax),%rdx
    .byte 0x66
    lea x@tlsgd(%rip),%rdi
    .value 0x6666
    rex64
    call __tls_get_addr@PLT
    lea x@tlsld(%rip),%rdi
    call __tls_get_addr@PLT
    lea x@dtpoff(%rax),%rcx
    ret
.size f,.-f
