#include "bench.h"
#include <lz4.h>
enum { SIZE = 2 << 20 };
static unsigned char plain[SIZE], packed[SIZE + SIZE / 8], back[SIZE];
unsigned long work(void) {
    if (!plain[0]) text(plain, SIZE);
    unsigned long sum = 0;
    for (int i = 0; i < 4; i++) {
        int length = LZ4_compress_default((char *)plain, (char *)packed, SIZE, sizeof packed);
        if (LZ4_decompress_safe((char *)packed, (char *)back, length, SIZE) != SIZE) abort();
        sum += sum_of(packed, length) + sum_of(back, SIZE);
    }
    return sum;
}
