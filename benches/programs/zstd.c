#include "bench.h"
#include <zstd.h>
enum { SIZE = 2 << 20 };
static unsigned char plain[SIZE], packed[SIZE + SIZE / 8], back[SIZE];
unsigned long work(void) {
    if (!plain[0]) text(plain, SIZE);
    size_t length = ZSTD_compress(packed, sizeof packed, plain, SIZE, 3);
    for (int i = 0; i < 3; i++)
        if (ZSTD_decompress(back, SIZE, packed, length) != SIZE) abort();
    return sum_of(packed, length) + sum_of(back, SIZE);
}
