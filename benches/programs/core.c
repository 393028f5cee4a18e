/* A mix in the manner of CoreMark: lists that are sorted and searched, small matrices, a state
 * machine over numbers in text, and a CRC over all results. */
#include "bench.h"
struct item { struct item *next; short key, index; };
static unsigned short crc(unsigned short c, unsigned value) {
    for (int i = 0; i < 16; i++, value >>= 1) c = (unsigned short)((c ^ value) & 1 ? c >> 1 ^ 0xa001 : c >> 1);
    return c;
}
static int by_key(const struct item *a, const struct item *b) { return a->key - b->key; }
static int by_index(const struct item *a, const struct item *b) { return a->index - b->index; }
static struct item *sorted(struct item *list, int (*compare)(const struct item *, const struct item *)) {
    for (int size = 1;; size *= 2) {
        struct item *from = list, **end = &list;
        int merges = 0;
        while (from) {
            struct item *second = from;
            int left = 0, right = size;
            merges++;
            while (left < size && second) left++, second = second->next;
            while (left || (right && second)) {
                struct item *take;
                if (left && (!right || !second || compare(from, second) <= 0)) take = from, from = from->next, left--;
                else take = second, second = second->next, right--;
                *end = take, end = &take->next;
            }
            from = second;
        }
        *end = 0;
        if (merges <= 1) return list;
    }
}
static struct item *reversed(struct item *list) {
    struct item *out = 0;
    while (list) { struct item *next = list->next; list->next = out, out = list, list = next; }
    return out;
}
static unsigned short lists(unsigned short c) {
    static struct item items[200];
    for (int i = 0; i < 200; i++) items[i] = (struct item){i < 199 ? &items[i + 1] : 0, (short)(i * 7919 % 503), (short)i};
    struct item *list = items;
    for (int find = 0; find < 30; find++) {
        struct item *at = list;
        while (at && at->key != find * 17 % 503) at = at->next;
        c = crc(c, at ? (unsigned short)at->index : 0xffffu);
        list = reversed(list);
    }
    list = sorted(list, by_key);
    for (struct item *at = list; at; at = at->next) c = crc(c, (unsigned short)at->index);
    list = sorted(list, by_index);
    return crc(c, (unsigned short)list->key);
}
static unsigned short matrices(unsigned short c) {
    enum { N = 24 };
    static short a[N][N], b[N][N];
    static int r[N][N];
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = (short)(i * j + c % 13), b[i][j] = (short)(i - j);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            int sum = 0;
            for (int k = 0; k < N; k++) { int p = a[i][k] * b[k][j]; sum += (p >> 2 & 15) * (p >> 5 & 127); }
            r[i][j] = sum;
        }
    for (int i = 0; i < N; i++) c = crc(c, (unsigned)r[i][(i * 5) % N]);
    return c;
}
static unsigned short states(unsigned short c) {
    static const char text[] = "5012,+1.5e3,-.25,0x1f,T0.5e,12a,7,33.3.3,-9e-2,abc,+,1e10,";
    static unsigned counts[8];
    memset(counts, 0, sizeof counts);
    for (int round = 0; round < 16; round++) {
        int state = 0;
        for (const char *at = text; *at; at++) {
            int digit = *at >= '0' && *at <= '9';
            if (*at == ',') { counts[state]++, state = 0; continue; }
            switch (state) {
            case 0: state = digit ? 2 : *at == '+' || *at == '-' ? 1 : *at == '.' ? 3 : 7; break;
            case 1: state = digit ? 2 : *at == '.' ? 3 : 7; break;
            case 2: state = digit ? 2 : *at == '.' ? 3 : *at == 'e' ? 4 : 7; break;
            case 3: state = digit ? 3 : *at == 'e' ? 4 : 7; break;
            case 4: state = digit || *at == '-' ? 5 : 7; break;
            case 5: state = digit ? 5 : 7; break;
            }
        }
    }
    for (int i = 0; i < 8; i++) c = crc(c, counts[i]);
    return c;
}
unsigned long work(void) {
    unsigned short c = 0;
    for (int i = 0; i < 20; i++) c = states(matrices(lists(c)));
    return c;
}
