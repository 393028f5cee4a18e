/* Message vectoring: each message is a row of a matrix and goes straight to its place, column by
 * column. The application is woken when all rows are there.
 * Message: 4 bytes row, then COLUMNS cells of 4 bytes. */
#include "ash.h"

#define ROWS 4
#define COLUMNS 8
#define CELL 4

struct state {
    unsigned rows; /* bit i: row i has arrived */
};

static unsigned row(struct ash_message *m)
{
    unsigned row;
    __builtin_memcpy(&row, m->bytes + m->payload, sizeof row);
    return row;
}

static int examine(struct ash_message *m)
{
    return m->length - m->payload == 4 + COLUMNS * CELL && row(m) < ROWS;
}

static int commit(struct ash_message *m)
{
    struct state *state = (struct state *)ash_state;
    /* The matrix lies column by column, so the cells of a row lie apart. */
    for (unsigned column = 0; column < COLUMNS; column++) {
        const unsigned char *cell = ash_segment + (column * ROWS + row(m)) * CELL;
        if (ash_copy(cell, m->payload + 4 + column * CELL, CELL))
            return -1;
    }
    state->rows |= 1u << row(m);
    return state->rows == (1u << ROWS) - 1 ? ash_wake(ROWS) : 0;
}

static void abandon(struct ash_message *m)
{
    (void)m;
}

ASH_HANDLER(examine, commit, abandon)
