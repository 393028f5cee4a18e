/* A stable sort in place, in the manner of wiki sort: runs by insertion, merged by binary searches
 * and rotations, with a small buffer. */
#include "bench.h"
enum { SIZE = 12000, BUFFER = 256 };
struct item { int key, index; };
static struct item items[SIZE], buffer[BUFFER];
typedef int compare(const struct item *, const struct item *);
static int by_key(const struct item *a, const struct item *b) { return a->key - b->key; }
static void turn_over(struct item *a, int n) {
    for (int i = 0; i < n / 2; i++) { struct item t = a[i]; a[i] = a[n - 1 - i], a[n - 1 - i] = t; }
}
static void rotate(struct item *a, int left, int right) {
    turn_over(a, left), turn_over(a + left, right), turn_over(a, left + right);
}
static int lower(const struct item *a, int n, const struct item *x, compare *less, int equal) {
    int from = 0;
    while (from < n) {
        int middle = from + (n - from) / 2, order = less(&a[middle], x);
        if (order < 0 || (equal && order == 0)) from = middle + 1;
        else n = middle;
    }
    return from;
}
static void merge(struct item *a, int left, int right, compare *less) {
    if (!left || !right) return;
    if (left <= BUFFER) {
        memcpy(buffer, a, left * sizeof *a);
        int i = 0, j = left, to = 0;
        while (i < left) a[to++] = j < left + right && less(&a[j], &buffer[i]) < 0 ? a[j++] : buffer[i++];
        return;
    }
    int half = left / 2, cut = lower(a + left, right, &a[half], less, 0);
    rotate(a + half, left - half, cut);
    merge(a, half, cut, less);
    merge(a + half + cut, left - half, right - cut, less);
}
unsigned long work(void) {
    unsigned state = 17, sum = 0;
    for (int i = 0; i < SIZE; i++) state = state * 1103515245 + 12345, items[i] = (struct item){(int)(state >> 16) % 1000, i};
    for (int at = 0; at < SIZE; at += 16)
        for (int i = at + 1; i < at + 16 && i < SIZE; i++) {
            struct item t = items[i];
            int j = i;
            for (; j > at && by_key(&t, &items[j - 1]) < 0; j--) items[j] = items[j - 1];
            items[j] = t;
        }
    for (int run = 16; run < SIZE; run *= 2)
        for (int at = 0; at + run < SIZE; at += 2 * run) merge(items + at, run, at + 2 * run > SIZE ? SIZE - at - run : run, by_key);
    for (int i = 1; i < SIZE; i++) {
        if (items[i].key < items[i - 1].key || (items[i].key == items[i - 1].key && items[i].index < items[i - 1].index)) puts("not sorted"), exit(1);
        sum = sum * 31 + (unsigned)items[i].index;
    }
    return sum;
}
