/* Runs a benchmark's module, which wasm2c made C of, as main.c runs `work`. */
#include "module.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The benchmarks call nothing of their host: each import stops. */
#include "imports.h"

static unsigned long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv) {
    static Z_bench_instance_t instance;
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    int times = argc > 2 ? atoi(argv[2]) : 1;
    u32 sum = 0;
    wasm_rt_init();
    Z_bench_init_module();
    INSTANTIATE(&instance);
    Z_benchZ__initialize(&instance);
    for (int i = 0; i < (times + 1) / 2; i++) Z_benchZ_work(&instance);
    for (int i = 0; i < rounds; i++) {
        unsigned long long begin = now();
        for (int j = 0; j < times; j++) sum = sum * 31 + Z_benchZ_work(&instance);
        printf("ns %llu\n", now() - begin);
    }
    printf("sum %u\n", sum);
    return 0;
}
