/* Recursive expression trees: built, simplified and evaluated. */
#include "bench.h"
struct node { int kind; int value; struct node *left, *right; };
static struct node pool[1 << 15];
static unsigned used, seed;
static unsigned next(void) { return (seed = seed * 1103515245 + 12345) >> 16; }
static struct node *make(int depth) {
    struct node *n = &pool[used++];
    if (!depth || used + 64 > 1 << 15) return *n = (struct node){0, (int)(next() % 100), 0, 0}, n;
    n->kind = 1 + next() % 5;
    n->left = make(depth - 1);
    n->right = make(depth - 1);
    return n;
}
static int evaluate(const struct node *n, int x) {
    switch (n->kind) {
    case 0: return n->value;
    case 1: return (int)((unsigned)evaluate(n->left, x) + (unsigned)evaluate(n->right, x));
    case 2: return (int)((unsigned)evaluate(n->left, x) - (unsigned)evaluate(n->right, x));
    case 3: return (int)((unsigned)evaluate(n->left, x) * (unsigned)evaluate(n->right, x));
    case 4: return evaluate(n->left, x) > x ? evaluate(n->right, x) : x;
    default: return evaluate(n->left, x + 1) ^ evaluate(n->right, x - 1);
    }
}
static int fold(struct node *n) {
    if (!n->kind) return 1;
    int constant = fold(n->left) & fold(n->right);
    if (constant && n->kind < 4) n->value = evaluate(n, 0), n->kind = 0;
    return !n->kind;
}
unsigned long work(void) {
    seed = 5, used = 0;
    struct node *root = make(13);
    unsigned sum = 0;
    for (int x = 0; x < 8; x++) sum = sum * 31 + (unsigned)evaluate(root, x);
    fold(root);
    return sum + (unsigned)evaluate(root, 9);
}
