/* AES-128 in counter mode, with the tables that a portable implementation has. */
#include "bench.h"
#include <stdint.h>
static uint8_t box[256];
static uint32_t table[256];
static uint8_t twice(uint8_t x) { return (uint8_t)(x << 1 ^ (x & 128 ? 0x1b : 0)); }
static uint32_t turned(uint32_t x, int by) { return x << by | x >> (32 - by); }
static void tables(void) {
    uint8_t p = 1, q = 1;
    do {
        p = (uint8_t)(p ^ twice(p));
        q ^= (uint8_t)(q << 1), q ^= (uint8_t)(q << 2), q ^= (uint8_t)(q << 4);
        if (q & 128) q ^= 9;
        uint8_t x = (uint8_t)(q ^ (uint8_t)(q << 1 | q >> 7) ^ (uint8_t)(q << 2 | q >> 6) ^ (uint8_t)(q << 3 | q >> 5) ^ (uint8_t)(q << 4 | q >> 4));
        box[p] = x ^ 0x63;
    } while (p != 1);
    box[0] = 0x63;
    for (int i = 0; i < 256; i++) {
        uint8_t s = box[i], d = twice(s);
        table[i] = (uint32_t)d | (uint32_t)s << 8 | (uint32_t)s << 16 | (uint32_t)(s ^ d) << 24;
    }
}
static void schedule(const uint8_t *key, uint32_t *w) {
    uint8_t round = 1;
    memcpy(w, key, 16);
    for (int i = 4; i < 44; i++) {
        uint32_t t = w[i - 1];
        if (i % 4 == 0) {
            t = t >> 8 | t << 24;
            t = (uint32_t)box[t & 255] | (uint32_t)box[t >> 8 & 255] << 8 | (uint32_t)box[t >> 16 & 255] << 16 | (uint32_t)box[t >> 24] << 24;
            t ^= round, round = twice(round);
        }
        w[i] = w[i - 4] ^ t;
    }
}
static void encrypt(const uint32_t *w, const uint8_t *in, uint8_t *out) {
    uint32_t s[4], t[4];
    memcpy(s, in, 16);
    for (int i = 0; i < 4; i++) s[i] ^= w[i];
    for (int round = 1; round < 10; round++) {
        for (int i = 0; i < 4; i++)
            t[i] = table[s[i] & 255] ^ turned(table[s[(i + 1) & 3] >> 8 & 255], 8) ^ turned(table[s[(i + 2) & 3] >> 16 & 255], 16) ^ turned(table[s[(i + 3) & 3] >> 24], 24) ^ w[4 * round + i];
        memcpy(s, t, 16);
    }
    for (int i = 0; i < 4; i++)
        t[i] = ((uint32_t)box[s[i] & 255] | (uint32_t)box[s[(i + 1) & 3] >> 8 & 255] << 8 | (uint32_t)box[s[(i + 2) & 3] >> 16 & 255] << 16 | (uint32_t)box[s[(i + 3) & 3] >> 24] << 24) ^ w[40 + i];
    memcpy(out, t, 16);
}
unsigned long work(void) {
    static uint8_t data[1 << 16];
    /* FIPS 197, appendix C.1. */
    static const uint8_t known[16] = {0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a};
    uint8_t key[16], counter[16], pad[16];
    uint32_t w[44];
    tables();
    for (int i = 0; i < 16; i++) key[i] = (uint8_t)i, counter[i] = (uint8_t)(i * 17);
    schedule(key, w);
    encrypt(w, counter, pad);
    if (memcmp(pad, known, 16)) puts("AES is wrong"), exit(1);
    text(data, sizeof data);
    for (size_t at = 0; at < sizeof data; at += 16) {
        counter[15]++, counter[14] += !counter[15];
        encrypt(w, counter, pad);
        for (int i = 0; i < 16; i++) data[at + i] ^= pad[i];
    }
    return sum_of(data, sizeof data);
}
