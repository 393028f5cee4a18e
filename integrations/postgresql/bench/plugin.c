/* The sandboxed side. */
#include "sfi_pg.h"

int add(int a, int b) { return a + b; }
int bytes(const char *text, size_t length) { (void)text; return (int)length; }

double area(const struct sfi_point *p, size_t n)
{
    double sum = 0;

    for (size_t i = 0, j = n - 1; i < n; j = i++) sum += p[j].x * p[i].y - p[i].x * p[j].y;
    return sum < 0 ? -sum / 2 : sum / 2;
}
