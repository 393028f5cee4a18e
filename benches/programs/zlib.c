#include "bench.h"
#include <zlib.h>
enum { SIZE = 1 << 20 };
static unsigned char plain[SIZE], packed[SIZE + SIZE / 8], back[SIZE];
unsigned long work(void) {
    if (!plain[0]) text(plain, SIZE);
    uLongf length = sizeof packed, again = SIZE;
    if (compress2(packed, &length, plain, SIZE, 6) != Z_OK) abort();
    for (int i = 0; i < 4; i++)
        if (uncompress(back, &again, packed, length) != Z_OK || again != SIZE) abort();
    return sum_of(packed, length) + sum_of(back, SIZE);
}
