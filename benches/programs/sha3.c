/* SHA3-256. */
#include "bench.h"
#include <stdint.h>
static uint64_t turned(uint64_t x, int by) { return by ? x << by | x >> (64 - by) : x; }
static void permute(uint64_t s[25]) {
    static const int turns[24] = {1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44};
    static const int places[24] = {10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1};
    static const uint64_t constants[24] = {0x1, 0x8082, 0x800000000000808a, 0x8000000080008000, 0x808b, 0x80000001, 0x8000000080008081, 0x8000000000008009, 0x8a, 0x88, 0x80008009, 0x8000000a, 0x8000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x800a, 0x800000008000000a, 0x8000000080008081, 0x8000000000008080, 0x80000001, 0x8000000080008008};
    for (int round = 0; round < 24; round++) {
        uint64_t c[5], t;
        for (int i = 0; i < 5; i++) c[i] = s[i] ^ s[i + 5] ^ s[i + 10] ^ s[i + 15] ^ s[i + 20];
        for (int i = 0; i < 5; i++) {
            t = c[(i + 4) % 5] ^ turned(c[(i + 1) % 5], 1);
            for (int j = 0; j < 25; j += 5) s[j + i] ^= t;
        }
        t = s[1];
        for (int i = 0; i < 24; i++) { uint64_t kept = s[places[i]]; s[places[i]] = turned(t, turns[i]), t = kept; }
        for (int j = 0; j < 25; j += 5) {
            for (int i = 0; i < 5; i++) c[i] = s[j + i];
            for (int i = 0; i < 5; i++) s[j + i] ^= ~c[(i + 1) % 5] & c[(i + 2) % 5];
        }
        s[0] ^= constants[round];
    }
}
static void digest(const unsigned char *data, size_t size, unsigned char out[32]) {
    enum { RATE = 136 };
    uint64_t s[25] = {0}, word;
    unsigned char last[RATE] = {0};
    for (; size >= RATE; data += RATE, size -= RATE) {
        for (int i = 0; i < RATE / 8; i++) memcpy(&word, data + 8 * i, 8), s[i] ^= word;
        permute(s);
    }
    memcpy(last, data, size);
    last[size] = 6, last[RATE - 1] |= 128;
    for (int i = 0; i < RATE / 8; i++) memcpy(&word, last + 8 * i, 8), s[i] ^= word;
    permute(s);
    memcpy(out, s, 32);
}
unsigned long work(void) {
    static unsigned char data[1 << 17];
    /* FIPS 202: the digest of nothing. */
    static const unsigned char empty[8] = {0xa7, 0xff, 0xc6, 0xf8, 0xbf, 0x1e, 0xd7, 0x66};
    unsigned char out[32];
    unsigned long sum = 0;
    digest(data, 0, out);
    if (memcmp(out, empty, 8)) puts("SHA-3 is wrong"), exit(1);
    text(data, sizeof data);
    digest(data, sizeof data, out);
    for (int i = 0; i < 32; i++) sum = sum * 33 + out[i];
    return sum;
}
