/* A loop of OpenMP: a product of matrices, whose rows are shared out. */
#include "../bench.h"
#include "scaling.h"

enum { N = 672 };
static double a[N][N], b[N][N], c[N][N];

unsigned long scaled(int threads) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = (i * 7 + j) % 13, b[i][j] = (i + j * 5) % 11;
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) c[i][j] = 0;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
    }
    return sum_of((unsigned char *)c, sizeof c);
}
