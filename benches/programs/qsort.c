#include "bench.h"
enum { N = 30000 };
static int v[N];
static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}
unsigned long work(void) {
    unsigned state = 1;
    for (int i = 0; i < N; i++) v[i] = (int)(state = state * 1664525 + 1013904223);
    qsort(v, N, sizeof *v, compare);
    unsigned long sum = 0;
    for (int i = 0; i < N; i += 97) sum = sum * 31 + v[i];
    return sum;
}
