/* Hash tables with open addressing, one for each half of the work. A thread of pthreads does the
 * second half. */
#include "scaling.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 14, STEPS = 30000000 };
static unsigned long all[2][SLOTS];

static void *half(void *which) {
    unsigned long *keys = all[(unsigned long)which], x = 88172645463325252ul + (unsigned long)which, found = 0;
    memset(keys, 0, sizeof all[0]);
    for (int n = 0; n < STEPS; n++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        unsigned long key = (x & 8191) + 1, at = key * 0x9e3779b97f4a7c15ul >> 50;
        while (keys[at] && keys[at] != key) at = (at + 1) & (SLOTS - 1);
        found += keys[at] == key;
        keys[at] = key;
    }
    return (void *)found;
}

unsigned long scaled(int threads) {
    pthread_t other;
    void *second;
    if (threads > 1 && pthread_create(&other, 0, half, (void *)1)) abort();
    unsigned long first = (unsigned long)half(0);
    if (threads == 1) second = half((void *)1);
    else if (pthread_join(other, &second)) abort();
    return first * 31 + (unsigned long)second;
}
