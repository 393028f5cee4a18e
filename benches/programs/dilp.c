/* Data manipulations by hand, as separate passes and as one loop, on words of 64 bits or (VECTOR)
 * of 256. Lengths are multiples of 128. */
#include <stdint.h>
#ifdef VECTOR
#include <immintrin.h>
#endif

typedef uint64_t u64;
typedef uint32_t u32;
#define NOINLINE static __attribute__((noinline))
#define EACH(type, n) _Pragma("GCC unroll 4") for (u64 i = 0; i < (n) / sizeof(type); i++)

static u64 ones(u64 a, u64 b) { u64 sum; return sum = a + b, sum + (sum < b); }

static u64 fold(u64 sum, u64 before) {
    sum = ones(sum, before);
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

#ifdef VECTOR
typedef __m256i word;
typedef struct { word all, high; } sums;
#define LOAD(p, i) _mm256_loadu_si256((const word *)(p) + (i))
#define STORE(p, i, x) _mm256_storeu_si256((word *)(p) + (i), x)
#define START {_mm256_setzero_si256(), _mm256_setzero_si256()}
static inline word swap(word x) {
    const word mask = _mm256_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 3, 2, 1, 0, 7, 6, 5, 4,
                                       11, 10, 9, 8, 15, 14, 13, 12);
    return _mm256_shuffle_epi8(x, mask);
}
static inline word mix(word x, u32 key) { return _mm256_xor_si256(x, _mm256_set1_epi32((int)key)); }
/* The sum of the lower halves is the difference, see `total`. */
static inline sums add(sums s, word x) {
    return (sums){_mm256_add_epi64(s.all, x), _mm256_add_epi64(s.high, _mm256_srli_epi64(x, 32))};
}
/* Not in line, gcc would keep the sums in memory, also in the loop. */
static inline __attribute__((always_inline)) u64 total(sums s) {
    u64 parts[8], sum = 0;
    _mm256_storeu_si256((word *)parts, _mm256_sub_epi64(s.all, _mm256_slli_epi64(s.high, 32)));
    _mm256_storeu_si256((word *)parts + 1, s.high);
    for (int i = 0; i < 4; i++) sum = ones(sum, parts[i]);
    for (int i = 4; i < 8; i++) sum = ones(sum, parts[i] << 32 | parts[i] >> 32);
    return sum;
}
#else
typedef u64 word;
typedef u64 sums;
#define LOAD(p, i) ((const u64 *)(p))[i]
#define STORE(p, i, x) ((u64 *)(p))[i] = (x)
#define START 0
static inline word swap(word x) { x = __builtin_bswap64(x); return x << 32 | x >> 32; }
static inline word mix(word x, u32 key) { return x ^ ((u64)key << 32 | key); }
static inline sums add(sums s, word x) { return ones(s, x); }
static u64 total(sums s) { return s; }
#endif

/* The passes. */
NOINLINE void pass_copy(void *d, const void *s, u64 n) {
    EACH(word, n) { word x = LOAD(s, i); __asm__ volatile("" ::: "memory"); STORE(d, i, x); }
}
NOINLINE void pass_sum(const void *s, u64 n, u64 *sum) {
    sums all = START;
    EACH(word, n) all = add(all, LOAD(s, i));
    *sum = fold(total(all), *sum);
}
NOINLINE void pass_swap(void *d, u64 n) { EACH(word, n) STORE(d, i, swap(LOAD(d, i))); }
NOINLINE void pass_mix(void *d, u64 n, u32 key) { EACH(word, n) STORE(d, i, mix(LOAD(d, i), key)); }

NOINLINE void separate_sum(void *d, const void *s, u64 n, u64 *r) { pass_copy(d, s, n); pass_sum(d, n, r); }
NOINLINE void separate_sum_swap(void *d, const void *s, u64 n, u64 *r) {
    pass_copy(d, s, n);
    pass_sum(d, n, r);
    pass_swap(d, n);
}
NOINLINE void separate_sum_mix_swap(void *d, const void *s, u64 n, u64 *r) {
    pass_copy(d, s, n);
    pass_sum(d, n, r);
    pass_mix(d, n, (u32)r[1]);
    pass_swap(d, n);
}

/* One loop. */
#define FUSED(name, work)                                                                                           \
    NOINLINE void name(void *restrict d, const void *restrict s, u64 n, u64 *restrict r) {                         \
        sums all = START;                                                                                           \
        const u32 key = (u32)r[1];                                                                                  \
        (void)key;                                                                                                  \
        EACH(word, n) { word x = LOAD(s, i); all = add(all, x); work; STORE(d, i, x); }                              \
        r[0] = fold(total(all), r[0]);                                                                              \
    }
FUSED(fused_sum, )
FUSED(fused_sum_swap, x = swap(x))
FUSED(fused_sum_mix_swap, x = swap(mix(x, key)))

/* CRC-32 by eight tables, and ChaCha20: plain C for both variants. */
static u32 table[8][256];
void prepare(void) {
    for (u32 i = 0; i < 256; i++) {
        u32 crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1) * 0xedb88320;
        table[0][i] = crc;
    }
    for (int t = 1; t < 8; t++)
        for (u32 i = 0; i < 256; i++) table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}
static inline u32 divide(u32 crc, u64 x) {
    x ^= crc;
    crc = 0;
    for (int i = 0; i < 8; i++) crc ^= table[7 - i][x >> 8 * i & 255];
    return crc;
}
NOINLINE void pass_crc(const u64 *s, u64 n, u64 *r) {
    u32 crc = (u32)*r;
    for (u64 i = 0; i < n / 8; i++) crc = divide(crc, s[i]);
    *r = crc;
}
NOINLINE void separate_crc(void *d, const void *s, u64 n, u64 *r) { pass_copy(d, s, n); pass_crc(d, n, r); }
NOINLINE void fused_crc(void *restrict d, const void *restrict s, u64 n, u64 *restrict r) {
    u32 crc = (u32)*r;
    for (u64 i = 0; i < n / 8; i++) {
        u64 x = ((const u64 *)s)[i];
        crc = divide(crc, x);
        ((u64 *)d)[i] = x;
    }
    *r = crc;
}

#define TURN(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define QUARTER(a, b, c, d)                                                                                         \
    a += b, d = TURN(d ^ a, 16), c += d, b = TURN(b ^ c, 12), a += b, d = TURN(d ^ a, 8), c += d, b = TURN(b ^ c, 7)
static inline void stream(const u32 state[16], u32 x[16]) {
    for (int i = 0; i < 16; i++) x[i] = state[i];
    for (int i = 0; i < 10; i++) {
        QUARTER(x[0], x[4], x[8], x[12]), QUARTER(x[1], x[5], x[9], x[13]);
        QUARTER(x[2], x[6], x[10], x[14]), QUARTER(x[3], x[7], x[11], x[15]);
        QUARTER(x[0], x[5], x[10], x[15]), QUARTER(x[1], x[6], x[11], x[12]);
        QUARTER(x[2], x[7], x[8], x[13]), QUARTER(x[3], x[4], x[9], x[14]);
    }
    for (int i = 0; i < 16; i++) x[i] += state[i];
}
static void start(u32 state[16], const u64 *r) {
    static const u32 constants[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    for (int i = 0; i < 4; i++) state[i] = constants[i];
    for (int i = 0; i < 12; i++) state[4 + i] = (u32)r[1 + i];
}
NOINLINE void pass_cipher(u32 *d, u64 n, u64 *r) {
    u32 state[16], x[16];
    start(state, r);
    for (u64 at = 0; at < n / 64; at++, state[12]++) {
        stream(state, x);
        for (int i = 0; i < 16; i++) d[16 * at + i] ^= x[i];
    }
    r[9] = state[12];
}
NOINLINE void separate_sum_cipher(void *d, const void *s, u64 n, u64 *r) {
    pass_copy(d, s, n);
    pass_sum(d, n, r);
    pass_cipher(d, n, r);
}
NOINLINE void fused_sum_cipher(void *restrict d, const void *restrict s, u64 n, u64 *restrict r) {
    u32 state[16], x[16];
    u64 sum = 0;
    start(state, r);
    for (u64 at = 0; at < n / 64; at++, state[12]++) {
        stream(state, x);
        for (int i = 0; i < 8; i++) {
            u64 y = ((const u64 *)s)[8 * at + i];
            sum = ones(sum, y);
            ((u64 *)d)[8 * at + i] = y ^ ((u64)x[2 * i + 1] << 32 | x[2 * i]);
        }
    }
    r[0] = fold(sum, r[0]);
    r[9] = state[12];
}

/* Each function many times, so that the cost of the call from the host does not count. */
#define RUN(name)                                                                                                   \
    void run_##name(u64 times, void *d, const void *s, u64 n, u64 *r) {                                             \
        while (times--) name(d, s, n, r);                                                                           \
    }
RUN(separate_sum)
RUN(separate_sum_swap)
RUN(separate_sum_mix_swap)
RUN(separate_crc)
RUN(separate_sum_cipher)
RUN(fused_sum)
RUN(fused_sum_swap)
RUN(fused_sum_mix_swap)
RUN(fused_crc)
RUN(fused_sum_cipher)
#ifdef DOMAIN
#define DILP(name) u64 name(void *, const void *, u64, u64 *); RUN(name)
DILP(dilp_0)
DILP(dilp_1)
DILP(dilp_2)
DILP(dilp_3)
DILP(dilp_4)
#endif
