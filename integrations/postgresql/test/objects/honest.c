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

const struct sfi_column *rows(int count, struct sfi_call *call)
{
    static struct sfi_column row[2];
    static char label[32];

    call->done = call->row >= (uint64_t)count;
    row[0].number = (int64_t)call->row;
    row[1].at = label;
    row[1].length = (uint64_t)snprintf(label, sizeof label, "row %d", (int)call->row);
    row[1].is_null = call->row == 2;
    call->length = 2;
    return row;
}

/* The row itself, its columns in the order that they came. */
const struct sfi_column *same_row(const struct sfi_column *row, size_t count, struct sfi_call *call)
{
    struct sfi_column *to = sfi_result(count * sizeof *to);

    memcpy(to, row, count * sizeof *to);
    call->length = count;
    return to;
}

long pair_digits(const struct sfi_column *row, size_t count)
{
    return count == 2 && !row[0].is_null && !row[1].is_null ? row[0].number + digits(row[1].at, row[1].length) : -1;
}

/* One of each: of the row's columns of this number. */
const struct sfi_column *forms(int count, struct sfi_call *call)
{
    static const struct sfi_point points[] = {{0, 0}, {1, 0}, {1, 1}};
    static const int numbers[] = {1, 2, 3};
    static const struct sfi_column row[] = {
        {.number = -7}, {.number = 1}, {.single = 1.5f}, {.real = 2.5}, {.at = "a text", .length = 6}, {.at = "1.25", .length = 4},
        {.at = points, .length = 3, .closed = 1}, {.at = points}, {.at = numbers, .length = 3}, {.at = "(1,x)", .length = 5}, {.is_null = 1}};

    call->length = (uint64_t)count;
    return row;
}

/* A path through the same points the other way, open if it was closed. */
const struct sfi_point *turned(const struct sfi_point *p, size_t n, int closed, struct sfi_call *call)
{
    struct sfi_point *to = sfi_result(n * sizeof *to);

    for (size_t i = 0; i < n; i++) to[i] = p[n - 1 - i];
    call->length = n;
    call->closed = !closed;
    return to;
}

/* Not STRICT: the sum without the NULL elements; NULL if there is nothing else. */
long known(const int *x, size_t n, struct sfi_call *call)
{
    const unsigned char *nulls = sfi_array_nulls(x, n);
    long sum = 0, found = 0;

    for (size_t i = 0; i < n; i++)
        if (!nulls[i]) sum += x[i], found++;
        else if (x[i] != 0) __builtin_trap();
    call->is_null = found == 0;
    return sum;
}
long known_points(const struct sfi_point *x, size_t n)
{
    long sum = 0;

    for (size_t i = 0; i < n; i++) sum = 2 * sum + (sfi_array_nulls(x, n)[i] == 0);
    return sum;
}

/* A number that a domain type or a column may refuse. */
int plain_number(int x, struct sfi_call *call) { call->is_null = x == 0; return x; }
const char *letters(int n, struct sfi_call *call)
{
    char *to = sfi_result((size_t)n);

    memset(to, 'x', (size_t)n);
    call->length = (uint64_t)n;
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
int say_at(int level, const char *text, size_t length) { return sfi_log(level, text, length); }

/* Sets of many rows at once. */
int up_to_many(int last, struct sfi_call *call)
{
    static struct sfi_column rows[1000];
    size_t count = 0;

    while (count < 1000 && call->row + count < (uint64_t)last) {
        rows[count].number = (int64_t)(call->row + count + 1);
        rows[count].is_null = call->row + count == 2;
        count++;
    }
    sfi_rows(call, rows, count);
    call->done = call->row + count >= (uint64_t)last;
    return 0;
}
const struct sfi_column *many_pairs(int count, struct sfi_call *call)
{
    static char labels[100][16];
    static struct sfi_column rows[100][2];
    size_t n = 0;

    for (; n < 100 && call->row + n < (uint64_t)count; n++) {
        rows[n][0].number = (int64_t)(call->row + n);
        rows[n][1].at = labels[n];
        rows[n][1].length = (uint64_t)snprintf(labels[n], sizeof labels[n], "row %d", (int)(call->row + n));
        rows[n][1].is_null = call->row + n == 2;
    }
    sfi_rows(call, rows[0], n);
    call->done = call->row + n >= (uint64_t)count;
    return 0;
}
