/* Copies and passes over `count` messages of `n` bytes, each pass over all of them before the next.
 * Caches hold one message, and do not hold many. Functions return the sum. */
#include "dilp.c"

u64 dilp_0(void *, const void *, u64, u64 *);
u64 dilp_1(void *, const void *, u64, u64 *);

#define EVERY for (u64 i = 0; i < count; i++)
#define FROM (memory + i * n)
#define TO (memory + (count + i) * n)
#define NEXT (memory + (2 * count + i) * n)
#define MANY(name, ...)                                                                                             \
    u64 many_##name(u64 rounds, u64 count, char *memory, u64 n) {                                                   \
        u64 r[16] = {0};                                                                                            \
        while (rounds--) { __VA_ARGS__ }                                                                            \
        return r[0];                                                                                                \
    }

MANY(copy, EVERY pass_copy(TO, FROM, n);)
MANY(two_copies, EVERY pass_copy(TO, FROM, n); EVERY pass_copy(NEXT, TO, n);)
MANY(separate_sum, EVERY pass_copy(TO, FROM, n); EVERY pass_sum(TO, n, r);)
MANY(fused_sum, EVERY fused_sum(TO, FROM, n, r);)
MANY(dilp_sum, EVERY dilp_0(TO, FROM, n, r);)
MANY(separate_swap, EVERY pass_copy(TO, FROM, n); EVERY pass_sum(TO, n, r); EVERY pass_swap(TO, n);)
MANY(fused_swap, EVERY fused_sum_swap(TO, FROM, n, r);)
MANY(dilp_swap, EVERY dilp_1(TO, FROM, n, r);)
