#include "bench.h"
enum { N = 256 };
static double a[N][N], b[N][N], c[N][N];
unsigned long work(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = i + j % 7, b[i][j] = i % 5 - j, c[i][j] = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
    double sum = 0;
    for (int i = 0; i < N; i++) sum += c[i][N - 1 - i];
    return (unsigned long)(long)sum;
}
