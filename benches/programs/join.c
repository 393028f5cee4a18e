/* A hash join: one table of rows is hashed, the other one looks its keys up and adds by group. */
#include "bench.h"
enum { BUILD = 1 << 13, PROBE = 1 << 16, SLOTS = 1 << 14 };
struct row { unsigned key, group; };
static struct row build[BUILD];
static int heads[SLOTS], chain[BUILD];
static unsigned long long sums[64];
static unsigned slot(unsigned key) { return key * 2654435761u >> 18; }
unsigned long work(void) {
    unsigned state = 11, sum = 0;
    memset(heads, -1, sizeof heads);
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < BUILD; i++) {
        state = state * 1103515245 + 12345;
        build[i] = (struct row){(state >> 8) % 50000, state >> 26};
        unsigned at = slot(build[i].key);
        chain[i] = heads[at], heads[at] = i;
    }
    for (int i = 0; i < PROBE; i++) {
        state = state * 1103515245 + 12345;
        unsigned key = (state >> 8) % 50000;
        for (int at = heads[slot(key)]; at >= 0; at = chain[at])
            if (build[at].key == key) sums[build[at].group] += (unsigned)i;
    }
    for (int i = 0; i < 64; i++) sum = sum * 31 + (unsigned)sums[i];
    return sum;
}
