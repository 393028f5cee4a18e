/* Pointer chasing: a list in random order, larger than the first caches. */
#include "bench.h"
enum { NODES = 1 << 14 };
struct node { struct node *next; unsigned value; };
static struct node nodes[NODES];
unsigned long work(void) {
    static unsigned order[NODES];
    unsigned state = 9, sum = 0;
    if (!nodes[0].next) {
        for (unsigned i = 0; i < NODES; i++) order[i] = i, nodes[i].value = i * 2654435761u;
        for (unsigned i = NODES - 1; i; i--) {
            state = state * 1103515245 + 12345;
            unsigned j = (state >> 8) % (i + 1), t = order[i];
            order[i] = order[j], order[j] = t;
        }
        for (unsigned i = 0; i < NODES; i++) nodes[order[i]].next = &nodes[order[(i + 1) % NODES]];
    }
    struct node *n = nodes;
    for (unsigned i = 0; i < 8 * NODES; i++) sum = sum * 3 + n->value, n->value ^= i, n = n->next;
    for (unsigned i = 0; i < NODES; i++) nodes[i].value = i * 2654435761u;
    return sum;
}
