/* Bodies that attract each other, in floating point. */
#include "bench.h"
#include <math.h>
struct body { double x[3], v[3], mass; };
unsigned long work(void) {
    struct body bodies[8];
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++) bodies[i] = (struct body){{i * 1.5, i * i * .25 - 2, 3 - i * .75}, {.1 * i, -.05 * i, .02}, 1 + i * .125};
    for (int round = 0; round < 4000; round++) {
        for (int i = 0; i < 8; i++)
            for (int j = i + 1; j < 8; j++) {
                double d[3], square = .01;
                for (int k = 0; k < 3; k++) d[k] = bodies[i].x[k] - bodies[j].x[k], square += d[k] * d[k];
                double by = .001 / (square * sqrt(square));
                for (int k = 0; k < 3; k++) bodies[i].v[k] -= d[k] * bodies[j].mass * by, bodies[j].v[k] += d[k] * bodies[i].mass * by;
            }
        for (int i = 0; i < 8; i++) for (int k = 0; k < 3; k++) bodies[i].x[k] += .001 * bodies[i].v[k];
    }
    double sum = 0;
    for (int i = 0; i < 8; i++) sum += bodies[i].x[0] + bodies[i].x[1] * 2 + bodies[i].x[2] * 3;
    return (unsigned)(long long)(sum * 1e6);
}
