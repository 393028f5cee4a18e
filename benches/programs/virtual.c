/* Virtual calls: shapes with tables of functions, as C++ compiles them. */
#include "bench.h"
struct shape;
struct table { unsigned (*area)(const struct shape *); unsigned (*around)(const struct shape *); void (*grow)(struct shape *, unsigned); };
struct shape { const struct table *table; unsigned a, b, c; };
static unsigned box_area(const struct shape *s) { return s->a * s->b; }
static unsigned box_around(const struct shape *s) { return 2 * (s->a + s->b); }
static void box_grow(struct shape *s, unsigned by) { s->a += by, s->b += by; }
static unsigned round_area(const struct shape *s) { return s->a * s->a * 355 / 113; }
static unsigned round_around(const struct shape *s) { return s->a * 710 / 113; }
static void round_grow(struct shape *s, unsigned by) { s->a += by; }
static unsigned wedge_area(const struct shape *s) { return s->a * s->b / 2; }
static unsigned wedge_around(const struct shape *s) { return s->a + s->b + s->c; }
static void wedge_grow(struct shape *s, unsigned by) { s->a += by, s->b += by, s->c += by; }
static const struct table tables[] = {{box_area, box_around, box_grow}, {round_area, round_around, round_grow}, {wedge_area, wedge_around, wedge_grow}};
unsigned long work(void) {
    static struct shape shapes[4096];
    unsigned state = 3, sum = 0;
    for (unsigned i = 0; i < 4096; i++) {
        state = state * 1103515245 + 12345;
        shapes[i] = (struct shape){&tables[(state >> 16) % 3], state >> 24, state >> 20 & 255, i & 127};
    }
    for (unsigned round = 0; round < 20; round++)
        for (unsigned i = 0; i < 4096; i++) {
            struct shape *s = &shapes[i];
            sum += s->table->area(s) ^ s->table->around(s);
            s->table->grow(s, round & 1);
        }
    return sum;
}
