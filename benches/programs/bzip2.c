#include "bench.h"
#include <bzlib.h>
enum { SIZE = 400000 };
static unsigned char plain[SIZE], packed[SIZE + SIZE / 8], back[SIZE];
void bz_internal_error(int code) { exit(code); }
unsigned long work(void) {
    if (!plain[0]) text(plain, SIZE);
    unsigned length = sizeof packed, again = SIZE;
    if (BZ2_bzBuffToBuffCompress((char *)packed, &length, (char *)plain, SIZE, 9, 0, 30) != BZ_OK) abort();
    if (BZ2_bzBuffToBuffDecompress((char *)back, &again, (char *)packed, length, 0, 0) != BZ_OK || again != SIZE) abort();
    return sum_of(packed, length) + sum_of(back, SIZE);
}
