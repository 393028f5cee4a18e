/* Functions that do what they say. */
#include "sfi_pg.h"

int add(int a, int b) { return a + b; }
long add8(long a, long b) { return a + b; }
double half(double x) { return x / 2; }
float third(float x) { return x / 3; }
int both(int a, int b) { return a && b; }
short small(short x) { return (short)(x + 1); }
int next_day(int date) { return date + 1; }

double area(const struct sfi_point *p, size_t n)
{
    double sum = 0;

    for (size_t i = 0, j = n - 1; i < n; j = i++) sum += p[j].x * p[i].y - p[i].x * p[j].y;
    return sum < 0 ? -sum / 2 : sum / 2;
}

double width(const double box[4]) { return box[0] - box[2]; }
double distance_from(const struct sfi_point *a, const struct sfi_point *b) { return (a->x - b->x) + (a->y - b->y); }
long path_points(const struct sfi_point *p, size_t n, int closed) { return (long)n * (closed ? 1 : -1); }

const struct sfi_point *swapped(const struct sfi_point *p)
{
    struct sfi_point *to = sfi_result(sizeof *to);

    to->x = p->y;
    to->y = p->x;
    return to;
}

const struct sfi_point *square(double side, struct sfi_call *call)
{
    struct sfi_point *to = sfi_result(4 * sizeof *to);

    memset(to, 0, 4 * sizeof *to);
    to[1].x = to[2].x = to[2].y = to[3].y = side;
    call->length = 4;
    return to;
}

const char *reversed(const char *text, size_t length, struct sfi_call *call)
{
    char *to = sfi_result(length);

    for (size_t i = 0; i < length; i++) to[i] = text[length - 1 - i];
    call->length = length;
    return to;
}

long digits(const char *text, size_t length)
{
    long sum = 0;

    for (size_t i = 0; i < length; i++)
        if (text[i] >= '0' && text[i] <= '9') sum += text[i] - '0';
    return sum;
}

const char *negated(const char *number, size_t length, struct sfi_call *call)
{
    char *to = sfi_result(length + 1);

    to[0] = '-';
    memcpy(to + 1, number, length);
    call->length = length + 1;
    return to;
}

double total(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

const int *up_to(int n, struct sfi_call *call)
{
    int *to = sfi_result((size_t)n * sizeof *to);

    for (int i = 0; i < n; i++) to[i] = i + 1;
    call->length = (uint64_t)n;
    return to;
}

/* Not STRICT: the number of NULLs, or NULL if there are none. */
int how_many_nulls(int a, const char *b, size_t length, struct sfi_call *call)
{
    (void)a, (void)b, (void)length;
    if (call->nulls == 0) call->is_null = 1;
    return __builtin_popcountll(call->nulls);
}

long countdown(int from, struct sfi_call *call)
{
    call->done = call->row >= (uint64_t)from;
    call->state += call->row;
    return from - (long)call->row;
}

const char *rows(int count, struct sfi_call *call)
{
    char *to = sfi_result(64);

    call->done = call->row >= (uint64_t)count;
    call->length = (uint64_t)snprintf(to, 64, "(%d,row %d)", (int)call->row, (int)call->row);
    return to;
}

/* An aggregate whose state lives here: a histogram. */
struct histogram {
    long count[4];
};

struct histogram *histogram_step(struct histogram *state, double x, struct sfi_call *call)
{
    if (call->nulls & 1) {
        state = malloc(sizeof *state);
        if (!state) __builtin_trap();
        memset(state, 0, sizeof *state);
    }
    if (!(call->nulls & 2)) state->count[x < 1 ? 0 : x < 2 ? 1 : x < 3 ? 2 : 3]++;
    return state;
}

const long *histogram_end(struct histogram *state, struct sfi_call *call)
{
    long *to = sfi_result(sizeof state->count);

    memcpy(to, state->count, sizeof state->count);
    free(state);
    call->length = 4;
    return to;
}

int say(const char *text, size_t length) { return sfi_log(SFI_NOTICE, text, length); }
