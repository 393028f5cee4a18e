/* Creates threads that do nothing and joins them, one after the other. Prints the nanoseconds of
 * one in the mean of each round, and then a sum of their results. The first round is not printed:
 * in it threads may have to be made that later ones use again. */
#include "../clock.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

static void *ends(void *argument) { return argument; }

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    unsigned long sum = 0;
    for (int i = 0; i <= rounds; i++) {
        unsigned long long begin = now();
        for (unsigned long n = 0; n < COUNT; n++) {
            pthread_t other;
            void *result;
            if (pthread_create(&other, 0, ends, (void *)n) || pthread_join(other, &result)) return 1;
            sum += (unsigned long)result;
        }
        unsigned long long time = now() - begin;
        if (i > 0) printf("ns %llu\n", time / COUNT);
    }
    printf("sum %lu\n", sum);
    return 0;
}
