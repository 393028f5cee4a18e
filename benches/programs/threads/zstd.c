/* zstd -T1 and -T2: the library's own threads compress parts of a text. */
#include "../bench.h"
#include "scaling.h"
#include <zstd.h>

enum { SIZE = 40 << 20, PART = 1 << 20 };
static unsigned char plain[SIZE], packed[SIZE];

static ZSTD_CCtx *context(int threads) {
    ZSTD_CCtx *made = ZSTD_createCCtx();
    if (!made || ZSTD_isError(ZSTD_CCtx_setParameter(made, ZSTD_c_nbWorkers, threads)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(made, ZSTD_c_jobSize, PART)))
        abort();
    return made;
}

unsigned long scaled(int threads) {
    static ZSTD_CCtx *all[2];
    ZSTD_CCtx **own = &all[threads - 1];
    if (!plain[0]) text(plain, SIZE);
    if (!*own) *own = context(threads);
    size_t length = ZSTD_compress2(*own, packed, sizeof packed, plain, SIZE);
    if (ZSTD_isError(length)) abort();
    return sum_of(packed, length);
}
