/* Stencils: five points in floating point, and nine points of bytes. */
#include "bench.h"
enum { N = 256 };
static double a[N][N], b[N][N];
static unsigned char image[N][N], blurred[N][N];
unsigned long work(void) {
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = (i * 31 + j * 17) % 256, image[i][j] = (unsigned char)(i * j);
    for (int round = 0; round < 6; round++) {
        for (int i = 1; i < N - 1; i++) for (int j = 1; j < N - 1; j++) b[i][j] = (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]) * 0.25;
        for (int i = 1; i < N - 1; i++) for (int j = 1; j < N - 1; j++) a[i][j] = (b[i - 1][j] + b[i + 1][j] + b[i][j - 1] + b[i][j + 1]) * 0.25;
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) {
                unsigned sum = 0;
                for (int y = -1; y <= 1; y++) for (int x = -1; x <= 1; x++) sum += image[i + y][j + x] * (unsigned)(2 - !!y) * (unsigned)(2 - !!x);
                blurred[i][j] = (unsigned char)(sum >> 4);
            }
        memcpy(image, blurred, sizeof image);
    }
    unsigned long sum = sum_of(&image[0][0], sizeof image);
    for (int i = 0; i < N; i++) sum = sum * 31 + (unsigned)a[i][(i * 7) % N];
    return sum;
}
