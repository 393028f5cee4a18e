# mode: full
# As silent_loads.s, but the other loads are confined too.
.globl f
.type f,@function
f:
    vpgatherdd %ymm1,(%rdi,%ymm2,4),%ymm0
    vpgatherqq 16(,%zmm2,8),%zmm0{%k1}
    vpgatherdd %ymm1,64(,%ymm2,4),%ymm0
    vmaskmovps 32(%rsp),%ymm1,%ymm0
    vpmaskmovd (%rdi,%rcx,4),%xmm1,%xmm0
    vmovdqu8 (%r14),%zmm0{%k1}{z}
    vmovdqu64 d(%rip),%zmm0{%k1}
    vpcmpeqb 64(%rdi),%zmm1,%k0{%k1}
    vaddps (%rdi){1to16},%zmm1,%zmm0{%k1}
    vmovdqu8 %zmm0,(%rdi){%k1}
    vmovdqu8 %zmm1,%zmm0{%k1}
    vmovdqu8 (%rdi),%zmm0
    prefetcht0 d(%rip)
    prefetchw 64(%rdi)
    xor %ecx,%ecx
    xgetbv
    ret
.size f,.-f
.data
d: .quad 0
