/* memcpy and memmove, both natively and in a domain. musl's own ones use `rep movsq` for blocks of
 * any size, which takes some 30 cycles on many processors and hides what the benchmark measures. */
#include <stddef.h>
#include <stdint.h>

enum { PIECE = 16 };
typedef uint64_t piece __attribute__((vector_size(PIECE), aligned(1), may_alias));
typedef uint64_t word64 __attribute__((aligned(1), may_alias));
typedef uint32_t word32 __attribute__((aligned(1), may_alias));
typedef uint16_t word16 __attribute__((aligned(1), may_alias));

/* Copies fewer bytes than a piece. All are read before the first is written. */
static inline void copy_small(unsigned char *to, const unsigned char *from, size_t size) {
    if (size >= 8) {
        word64 first = *(const word64 *)from, last = *(const word64 *)(from + size - 8);
        *(word64 *)to = first, *(word64 *)(to + size - 8) = last;
    } else if (size >= 4) {
        word32 first = *(const word32 *)from, last = *(const word32 *)(from + size - 4);
        *(word32 *)to = first, *(word32 *)(to + size - 4) = last;
    } else if (size >= 2) {
        word16 first = *(const word16 *)from, last = *(const word16 *)(from + size - 2);
        *(word16 *)to = first, *(word16 *)(to + size - 2) = last;
    } else if (size) {
        *to = *from;
    }
}

/* The barriers keep compilers from making calls of memcpy and memmove out of the loops. */

/* Copies a piece or more from the beginning to the end. The blocks may overlap if `to` is lower:
 * each piece is read before one is written over it. */
static inline void copy_up(unsigned char *to, const unsigned char *from, size_t size) {
    piece last = *(const piece *)(from + size - PIECE);
    unsigned char *end = to + size - PIECE;
    for (; to < end; to += PIECE, from += PIECE) {
        *(piece *)to = *(const piece *)from;
        __asm__("" : "+r"(from));
    }
    *(piece *)end = last;
}

/* The same from the end to the beginning, if `to` is higher. */
static inline void copy_down(unsigned char *to, const unsigned char *from, size_t size) {
    piece first = *(const piece *)from;
    for (size_t left = size - PIECE; left > 0; left = left > PIECE ? left - PIECE : 0) {
        *(piece *)(to + left) = *(const piece *)(from + left);
        __asm__("" : "+r"(from));
    }
    *(piece *)to = first;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    if (size < PIECE) copy_small(to, from, size);
    else copy_up(to, from, size);
    return to;
}

void *memmove(void *to, const void *from, size_t size) {
    if (size < PIECE) copy_small(to, from, size);
    else if ((uintptr_t)to - (uintptr_t)from >= size) copy_up(to, from, size);
    else copy_down(to, from, size);
    return to;
}
