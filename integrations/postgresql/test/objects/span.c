/* A type of this language, an interval of numbers, with GiST support. */
#include "sfi_pg.h"

struct span {
    double low, high;
};

static double number(const char **at)
{
    double value = 0, unit = 1;
    int negative = **at == '-';

    if (negative) ++*at;
    for (; **at >= '0' && **at <= '9'; ++*at) value = 10 * value + (**at - '0');
    if (**at == '.')
        for (++*at; **at >= '0' && **at <= '9'; ++*at) value += (**at - '0') * (unit /= 10);
    return negative ? -value : value;
}

/* `low..high`. */
const struct span *span_in(const char *text, size_t length)
{
    struct span *to = sfi_result(sizeof *to);

    (void)length;
    to->low = number(&text);
    while (*text == '.') text++;
    to->high = number(&text);
    return to;
}

const char *span_out(const struct span *s, struct sfi_call *call)
{
    char *to = sfi_result(64);

    call->length = (uint64_t)snprintf(to, 64, "%ld..%ld", (long)s->low, (long)s->high);
    return to;
}

int overlaps(const struct span *a, const struct span *b) { return a->low <= b->high && b->low <= a->high; }
double span_low(const struct span *s) { return s->low; }

int consistent(const struct span *key, const struct span *query, int strategy, struct sfi_gist *more)
{
    more->recheck = 0;
    return strategy == 3 && overlaps(key, query);
}

void unite(const struct span *keys, size_t count, struct span *to)
{
    *to = keys[0];
    for (size_t i = 1; i < count; i++) {
        if (keys[i].low < to->low) to->low = keys[i].low;
        if (keys[i].high > to->high) to->high = keys[i].high;
    }
}

double penalty(const struct span *key, const struct span *added)
{
    double grown = 0;

    if (added->low < key->low) grown += key->low - added->low;
    if (added->high > key->high) grown += added->high - key->high;
    return grown;
}

void picksplit(const struct span *keys, size_t count, unsigned char *right, struct span *left_key, struct span *right_key)
{
    double middle = 0;
    size_t rights = 0;
    int first[2] = {1, 1};

    for (size_t i = 0; i < count; i++) middle += (keys[i].low + keys[i].high) / 2 / (double)count;
    for (size_t i = 0; i < count; i++) rights += right[i] = (keys[i].low + keys[i].high) / 2 > middle;
    if (rights == 0 || rights == count)
        for (size_t i = 0; i < count; i++) right[i] = i & 1;
    for (size_t i = 0; i < count; i++) {
        struct span *key = right[i] ? right_key : left_key;

        if (first[right[i]]) *key = keys[i];
        first[right[i]] = 0;
        if (keys[i].low < key->low) key->low = keys[i].low;
        if (keys[i].high > key->high) key->high = keys[i].high;
    }
}

int same(const struct span *a, const struct span *b) { return a->low == b->low && a->high == b->high; }

/* The same, hostile. */
int bad_consistent(const struct span *key, const struct span *query, int strategy, struct sfi_gist *more)
{
    (void)key, (void)query, (void)strategy;
    more->recheck = 77;
    return 99;
}
int crashing_consistent(void) { __builtin_trap(); }
void bad_picksplit(const struct span *keys, size_t count, unsigned char *right) { (void)keys; memset(right, 0, count); }
void crashing_picksplit(const struct span *keys, size_t count, unsigned char *right) { (void)keys, (void)count; memset(right, 1, 1ul << 30); }
const struct span *broken_in(void) { __builtin_trap(); }
const char *broken_out(void) { __builtin_trap(); }
int broken_equals(void) { __builtin_trap(); }
int crashing_same(void) { __builtin_trap(); }
double crashing_penalty(void) { __builtin_trap(); }
double endless_penalty(void) { for (volatile int i = 0;; i++) ; }
void crashing_union(void) { __builtin_trap(); }
double bad_penalty(void) { return -__builtin_nan(""); }
void bad_union(const struct span *keys, size_t count, struct span *to)
{
    (void)keys, (void)count;
    to->low = __builtin_nan("");
    to->high = -1;
}
