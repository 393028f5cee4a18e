/* The loops over the rows of a batch. They are code of the domain, as the functions that they call:
 * rewritten, verified, and not trusted. */
#include <stddef.h>
#include <stdint.h>

#define INTS row[0], row[1], row[2], row[3], row[4], row[5]
#define FLOATS real[0], real[1], real[2], real[3], real[4], real[5], real[6], real[7]

typedef uint64_t W;
typedef double F;
typedef W ints_to_word(W, W, W, W, W, W);
typedef F ints_to_float(W, W, W, W, W, W);
typedef W all_to_word(W, W, W, W, W, W, F, F, F, F, F, F, F, F);
typedef F all_to_float(W, W, W, W, W, W, F, F, F, F, F, F, F, F);

void __sfi_pg_batch_0(ints_to_word *function, const W *row, W *results, size_t count)
{
    for (; count > 0; count--, row += 6) *results++ = function(INTS);
}

void __sfi_pg_batch_1(ints_to_float *function, const W *row, F *results, size_t count)
{
    for (; count > 0; count--, row += 6) *results++ = function(INTS);
}

void __sfi_pg_batch_2(all_to_word *function, const W *row, W *results, size_t count)
{
    for (; count > 0; count--, row += 14) {
        const F *real = (const F *) (row + 6);

        *results++ = function(INTS, FLOATS);
    }
}

void __sfi_pg_batch_3(all_to_float *function, const W *row, F *results, size_t count)
{
    for (; count > 0; count--, row += 14) {
        const F *real = (const F *) (row + 6);

        *results++ = function(INTS, FLOATS);
    }
}
