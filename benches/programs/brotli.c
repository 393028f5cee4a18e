#include "bench.h"
#include <brotli/decode.h>
#include <brotli/encode.h>
unsigned long work(void) {
    static unsigned char plain[1 << 16], packed[1 << 17], again[1 << 16];
    size_t size = sizeof packed, back = sizeof again;
    text(plain, sizeof plain);
    if (!BrotliEncoderCompress(6, 18, BROTLI_MODE_GENERIC, sizeof plain, plain, &size, packed)) puts("not packed"), exit(1);
    if (BrotliDecoderDecompress(size, packed, &back, again) != BROTLI_DECODER_RESULT_SUCCESS || memcmp(plain, again, sizeof plain)) puts("not equal"), exit(1);
    return sum_of(packed, size);
}
