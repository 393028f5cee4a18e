/* Functions of somebody whom nobody trusts. */
#include "sfi_pg.h"

int plain(int x) { return x; }

/* Words where the server has a vector of numbers. */
const char *no_numbers(struct sfi_call *call) { call->length = 0; return ""; }
const char *some_numbers(int n, struct sfi_call *call) { call->length = (uint64_t)n; return "1 2 3 4"; }

/* The bytes of a row's last column, if its type is text. */
long last_length(const struct sfi_column *row, size_t count) { return count > 0 ? (long)row[count - 1].length : -1; }
/* Alters a type by SQL, and returns a row of it. */
const struct sfi_column *altering(const char *sql, size_t length, struct sfi_call *call)
{
    static const struct sfi_column row[] = {{.at = "one", .length = 3}, {.at = "two", .length = 3}};

    sfi_query(sql, length, 0, 0);
    call->length = 2;
    return row;
}

/* A fault at one number, for all places where the server calls functions. */
int failing(int x) { if (x == 7) __builtin_trap(); return x; }
int failing_order(int a, int b) { if (a == 7 || b == 7) __builtin_trap(); return (a > b) - (a < b); }
double failing_difference(int a, int b) { if (a == 7 || b == 7) __builtin_trap(); return a - b; }
long failing_sum(long state, int x) { return failing(x) + state; }
long failing_two(long a, long b) { (void)a; (void)b; __builtin_trap(); }
long failing_end(long state) { (void)state; __builtin_trap(); }

/* Sets of many rows at once that lie. */
int lying_set(int how, struct sfi_call *call)
{
    static struct sfi_column row[2] = {{.number = 1}, {.number = 2, .length = 1}};

    sfi_rows(call, row, 2);
    call->done = 1;
    if (how == 1) call->rows = 1ul << 60;
    if (how == 2) call->rows = (uint64_t)-1;
    if (how == 3) call->values = (const struct sfi_column *)0x1234000dead0UL;
    if (how == 4) call->rows = 1ul << 24;
    if (how == 5) { call->rows = 1; call->done = 0; }
    return 0;
}
