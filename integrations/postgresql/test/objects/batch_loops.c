/* Loops of its own under the names of the server's. */
#include "sfi_pg.h"

int honest_one(int64_t n) { return n & 1; }

void __sfi_pg_batch_0(void *function, const uint64_t *row, uint64_t *results, size_t count)
{
    (void) function, (void) row;
    for (size_t i = 0; i < count + 100000; i++) results[i] = UINT64_MAX;
}
