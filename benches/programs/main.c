/* Runs `work` once to warm up and then as often as asked; prints what it computed and the nanoseconds of each round. */
#include "bench.h"
#include <time.h>

static unsigned long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    unsigned long sum = work();
    for (int i = 0; i < rounds; i++) {
        unsigned long long begin = now();
        sum = sum * 31 + work();
        printf("ns %llu\n", now() - begin);
    }
    printf("sum %lu\n", sum);
    return 0;
}
