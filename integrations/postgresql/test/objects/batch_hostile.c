/* Conditions for batches, each of which attacks when it gets a certain number. */
#include "sfi_pg.h"

#define AT 37

/* No results of a bool. */
int lies(int64_t n) { return (int) (n << 8) + (n % 3 == 0); }
/* A result that is no number, and huge ones. */
double no_real(int64_t n) { return n == AT ? __builtin_nan("") : n == 38 ? 1e308 * 10 : n; }

int crashes(int64_t n)
{
    if (n == AT) __builtin_trap();
    return 1;
}

int divides(int64_t n) { return (int) (n % (n - AT)) >= 0; }

int jumps(int64_t n)
{
    if (n == AT) return ((int (*)(void)) n)() + 1;
    return 1;
}

/* Jumps to a pointer that is none, in the window or beyond. */
int jumps_far(int64_t n)
{
    if (n == AT) return ((int (*)(void)) 0x7fff12345678)() + 1;
    return 1;
}

static int down(int64_t n)
{
    volatile char frame[512];

    frame[n & 511] = 1;
    return down(n + 1) + frame[(n + 1) & 511];
}

int sinks(int64_t n) { return n == AT ? down(n) : 1; }

int turns(int64_t n)
{
    if (n == AT)
        for (volatile int i = 0;; i++);
    return 1;
}

int turns_always(int64_t n)
{
    for (volatile int64_t i = n;; i++);
    return 1;
}

/* Changes the registers that functions preserve, and the frame of its caller. In a batch the loop
 * has its pointers and its count there. */
static int over(int64_t n, uint64_t with)
{
    volatile uint64_t own[1];
    volatile uint64_t *place = own;

    if (n == AT) {
        __asm__ volatile("" : "+r"(place));
        for (int i = 0; i < 16; i++) place[i] = with;
        __asm__ volatile("mov %0, %%rbx\n\tmov %0, %%rbp\n\tmov %0, %%r12\n\tmov %0, %%r13\n\tmov %0, %%r14" : : "a"(with));
    }
    return 1;
}

int smears(int64_t n) { return over(n, 0x5555555555555555); }
int smears_small(int64_t n) { return over(n, 0x1000); }
int smears_count(int64_t n) { return over(n, UINT64_MAX); }

/* Fills what it finds above its argument, so also the words of other rows and their results. */
int fills(const char *text, size_t length)
{
    volatile char *volatile room = (volatile char *) text;

    for (size_t i = 0; i < 512; i++) room[i] = 0x41;
    return length < 20;
}

/* Asks the server with a pointer and a length that lie. */
int asks(int64_t n)
{
    if (n == AT) return sfi_log(SFI_NOTICE, (const char *) 16, UINT64_C(1) << 40) + 2;
    return 1;
}

/* Depends on earlier rows. */
int remembers(int64_t n)
{
    static int64_t most;

    if (n > most) most = n;
    return most >= n;
}
