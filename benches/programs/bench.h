#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Does a few milliseconds of work. The result depends on all of it. */
unsigned long work(void);

/* Writes a text of words, some of them often. It compresses like prose. */
static inline void text(unsigned char *to, size_t size) {
    static const char *const words[] = {"the ", "of ", "and ", "domain ", "window ", "register ", "a ", "in ", "that ", "segment ", "fault ", "isolation ", "which ", "stack, ", "returns. ", "\n"};
    unsigned state = 7;
    size_t at = 0;
    while (at < size) {
        state = state * 1103515245 + 12345;
        const char *word = words[(state >> 16 & 15) * (state >> 24 & 15) >> 4];
        while (*word && at < size) to[at++] = *word++;
        if ((state >> 8 & 31) == 0 && at < size) to[at++] = (unsigned char)(state >> 20);
    }
}

static inline unsigned long sum_of(const unsigned char *bytes, size_t size) {
    unsigned long sum = size;
    for (size_t i = 0; i < size; i += 61) sum = sum * 33 + bytes[i];
    return sum;
}
