/* malloc on memory that is never given back to the kernel, both natively and in a domain. So the
 * benchmark measures code and not page faults. It has size classes with free lists. A block's class
 * lies before the block. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { HEAP = 192 << 20, CLASSES = 128, HEADER = 16 };
static unsigned char heap[HEAP] __attribute__((aligned(4096)));
static size_t used;
static void *lists[CLASSES];

/* Multiples of 16 up to 512, then four classes for each power of two. */
static unsigned class_of(size_t size) {
    if (size <= 512) return (unsigned)((size + 15) / 16);
    unsigned power = 63 - (unsigned)__builtin_clzl(size - 1);
    return 32 + (power - 9) * 4 + (unsigned)((size - 1 >> (power - 2)) & 3) + 1;
}

static size_t size_of(unsigned class) {
    if (class <= 32) return class * 16;
    unsigned above = class - 33;
    return (size_t)(above % 4 + 5) << (above / 4 + 7);
}

void *malloc(size_t size) {
    if (size > HEAP) return errno = ENOMEM, NULL;
    unsigned class = class_of(size ? size : 1);
    void **block = lists[class];
    if (block) {
        lists[class] = *block;
        return block;
    }
    size_t wanted = size_of(class) + HEADER;
    if (wanted > HEAP - used) return errno = ENOMEM, NULL;
    unsigned char *at = heap + used;
    used += wanted;
    *(uint64_t *)(at + 8) = class;
    return at + HEADER;
}

void free(void *block) {
    if (!block) return;
    unsigned class = (unsigned)((uint64_t *)block)[-1];
    *(void **)block = lists[class];
    lists[class] = block;
}

void *calloc(size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) return errno = ENOMEM, NULL;
    void *block = malloc(all);
    /* Without this, gcc makes the pair of malloc and memset a call of calloc: of this function. */
    __asm__("" : "+r"(block));
    return block ? memset(block, 0, all) : NULL;
}

void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    size_t old = size_of((unsigned)((uint64_t *)block)[-1]);
    if (size <= old && size > old / 4) return block;
    void *again = malloc(size);
    if (again) memcpy(again, block, size < old ? size : old), free(block);
    return again;
}
