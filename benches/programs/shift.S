# Shifts the code after it by SHIFT bytes, so that the luck of one layout is not taken for a cost.
.section .note.GNU-stack,"",@progbits
.text
.globl bench_shift
.type bench_shift,@function
bench_shift:
    .rept SHIFT
    int3
    .endr
.size bench_shift,.-bench_shift
