/* Calls of one function for many rows, in one crossing. */
#ifndef PGSFI_BATCH_H
#define PGSFI_BATCH_H

#include "function.h"

#pragma GCC visibility push(hidden)

/* The most rows of a crossing, and the words of a row: the registers of a call. */
enum { BATCH_ROWS = 256, BATCH_INTS = 6, BATCH_FLOATS = 8, BATCH_WORDS = BATCH_INTS + BATCH_FLOATS };

/* Rows that wait for their crossing. */
typedef struct Batch {
    Function *function; /* for which this was set up */
    bool possible;      /* its arguments fit the registers, and its result is a number */
    int loop;           /* the loop of the domain, see loop.c */
    int stride;         /* words of a row */
    QuickArgument places[MAX_WORDS]; /* `word` is the register */
    uint64 pointer; /* to the function in its domain, or 0 */
    uint64 faults;  /* of the instance at that time */
    int rows;
    Size size; /* room for the pieces */
    int pieces;
    int common; /* pieces that all rows share */
    sfi_value words[BATCH_ROWS * BATCH_WORDS];
    sfi_value results[BATCH_ROWS];
    sfi_value first[BATCH_WORDS]; /* the words that all rows share */
    Piece common_piece[MAX_WORDS];
    Piece piece[]; /* of BATCH_ROWS rows with MAX_WORDS arguments at most */
} Batch;

/* Returns an empty batch for functions of `arguments` arguments. */
extern Batch *pgsfi_batch_new(int arguments);
/* Sets the batch up for a function. Returns false if the function must be called row by row. */
extern bool pgsfi_batch_for(Batch *batch, Function *function);
/* Forgets all rows and common arguments. */
extern void pgsfi_batch_clear(Batch *batch);
/* Returns the most bytes of the pieces of a crossing. */
extern Size pgsfi_batch_room(void);
/* Calls the function for all rows. Returns false if one call failed or asked the server: then the
 * results count for nothing, and nothing else has happened. */
extern bool pgsfi_batch_call(Batch *batch);

/* Sets an argument of all rows. */
static inline void batch_common(Batch *batch, int argument, Datum value)
{
    QuickArgument place = batch->places[argument];
    Piece *piece = &batch->common_piece[batch->common];

    if (put_quick(batch->function->instance, place, value, &batch->first[place.word], piece)) {
        batch->size += piece_room(piece);
        batch->common++;
    }
}

/* Begins a row. Returns its words. */
static inline sfi_value *batch_row(Batch *batch)
{
    sfi_value *row = &batch->words[batch->rows++ * batch->stride];

    memcpy(row, batch->first, BATCH_INTS * sizeof *row);
    if (batch->stride > BATCH_INTS) memcpy(row + BATCH_INTS, batch->first + BATCH_INTS, BATCH_FLOATS * sizeof *row);
    return row;
}

/* Sets an argument of the row. */
static inline void batch_argument(Batch *batch, sfi_value *row, int argument, Datum value)
{
    QuickArgument place = batch->places[argument];
    Piece *piece = &batch->piece[batch->pieces];

    if (put_quick(batch->function->instance, place, value, &row[place.word], piece)) {
        batch->size += piece_room(piece);
        batch->pieces++;
    }
}

#pragma GCC visibility pop

#endif
