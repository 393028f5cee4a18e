/* Does a work with one thread and with two, in turn, in so many rounds. Prints the nanoseconds of
 * both for each round, and then the sum of the results. */
#include "../clock.h"
#include "scaling.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    unsigned long sum = scaled(1);
    if (scaled(2) != sum) return 1;
    for (int i = 0; i < rounds; i++) {
        unsigned long long begin = now();
        unsigned long one = scaled(1);
        unsigned long long middle = now();
        unsigned long two = scaled(2);
        unsigned long long end = now();
        if (one != two) return 1;
        printf("ns %llu %llu\n", middle - begin, end - middle);
        sum = sum * 31 + one;
    }
    printf("sum %lu\n", sum);
    return 0;
}
