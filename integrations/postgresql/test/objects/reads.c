/* Functions that only read their arguments, and some that break this promise. */
#include "sfi_pg.h"

SFI_READS_IN_PLACE

long reads(const char *text, size_t length)
{
    long sum = 0;

    for (size_t i = 0; i < length; i++) sum += text[i] == 't';
    return sum;
}

double area(const struct sfi_point *p, size_t n)
{
    double sum = 0;

    for (size_t i = 0, j = n - 1; i < n; j = i++) sum += p[j].x * p[i].y - p[i].x * p[j].y;
    return sum < 0 ? -sum / 2 : sum / 2;
}

double corner(const struct sfi_point *p, const double *box) { return p->x + 10 * p->y + 100 * box[0] + 1000 * box[3]; }
long address(const char *text) { return (long)text; }

long writes(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) text[i] = 'X';
    return (long)length;
}
const struct sfi_point *returns(const struct sfi_point *p) { return p; }
int logs(const char *text, size_t length) { return sfi_log(SFI_NOTICE, text, length); }

/* Logs a few bytes of each MiB. Returns how many the server refused. */
int refused(const char *text, size_t length)
{
    int refused = 0;

    for (size_t i = 0; i + 8 < length; i += 1 << 20) refused += sfi_log(SFI_NOTICE, text + i, 7) == -1;
    return refused;
}
