/* Conditions for batches. */
#include "sfi_pg.h"

int odd(int64_t n) { return n & 1; }
double scaled(int64_t n, double by) { return n * by; }
int shorter(const char *text, size_t length, int64_t than) { return (int64_t) length < than; }

/* Faults in one row. */
int not_every(int64_t n)
{
    volatile int *volatile place = (volatile int *) n;

    if (n == 37) *place = 1;
    return 1;
}

/* Tells the server of one row. */
int told(int64_t n)
{
    if (n == 5) sfi_log(SFI_NOTICE, "five", 4);
    return n < 10;
}

/* Spoils all of the room that it finds after its argument. */
int spoils(const char *text, size_t length)
{
    volatile char *room = (volatile char *) text;

    for (size_t i = 0; i < 64; i++) room[i] = 0x55;
    return 1;
}
