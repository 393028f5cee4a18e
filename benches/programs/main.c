/* Runs `work` to warm up and then in rounds. The arguments are the number of rounds and the calls
 * in each. Prints the nanoseconds of each round and the sum that `work` computed. */
#include "bench.h"
#include "clock.h"

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    int times = argc > 2 ? atoi(argv[2]) : 1;
    unsigned long sum = 0;
    for (int i = 0; i < (times + 1) / 2; i++) work();
    for (int i = 0; i < rounds; i++) {
        unsigned long long begin = now();
        for (int j = 0; j < times; j++) sum = sum * 31 + work();
        printf("ns %llu\n", now() - begin);
    }
    printf("sum %lu\n", sum);
    return 0;
}
