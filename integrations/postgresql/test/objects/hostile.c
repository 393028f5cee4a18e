/* Functions that attack the server. */
#include "sfi_pg.h"

int wild_store(long address) { *(volatile int *)address = 42; return 1; }
int wild_load(long address) { return *(volatile int *)address; }
int wild_jump(long address) { return ((int (*)(void))address)() + 1; /* no tail call */ }
int divide(int a, int b) { return a / b; }
int endless(int x) { for (volatile int i = x;; i++) ; }
int deep(int x) { volatile char frame[512]; frame[x & 511] = 1; return deep(x + 1) + frame[(x + 1) & 511]; }
int eat(int x)
{
    for (;;) {
        char *block = malloc(1 << 20);

        if (!block) __builtin_trap();
        memset(block, x, 1 << 20);
    }
}

/* Results that lie. Nothing is ever mapped at this place of a window. */
const char *far_away(struct sfi_call *call) { call->length = 100; return (const char *)0x1234000dead0UL; }
const char *endless_text(struct sfi_call *call) { call->length = 1ul << 40; return "x"; }
const char *past_the_end(struct sfi_call *call) { call->length = 1ul << 30; return "x"; }
const char *negative_text(struct sfi_call *call) { call->length = (uint64_t)-1; return "x"; }
const char *no_text(struct sfi_call *call) { call->length = 3; return "a\xff" "b"; }
const char *zero_text(struct sfi_call *call) { call->length = 3; return "a\0b"; }
const char *no_number(struct sfi_call *call) { call->length = 5; return "12x45"; }
int no_date(int x) { return x ? 2000000000 : -2000000000; }
int no_bool(int x) { return 0x1200 + x; }
const void *no_points(struct sfi_call *call) { call->length = 0; return 0; }
const void *open_path(struct sfi_call *call) { call->length = 1ul << 60; return "x"; }
const void *no_path(struct sfi_call *call) { call->length = 0; return 0; }
/* Rows that lie, in one way or another. */
const void *bad_row(int how, struct sfi_call *call)
{
    static struct sfi_column row[2];

    row[0] = (struct sfi_column){.number = 1};
    row[1] = (struct sfi_column){.at = "x", .length = 1};
    call->length = how == 0 ? 1 : how == 1 ? 1ul << 60 : 2;
    if (how == 2) row[1].at = (const char *)0x1234000dead0UL;
    if (how == 3) row[1].length = 1ul << 40;
    if (how == 4) row[1].length = (uint64_t)-1;
    if (how == 5) row[1].at = "\xff";
    if (how == 6) return (const void *)0x7ffffffffff8UL;
    return row;
}
const struct sfi_point *no_point(int x) { return (const struct sfi_point *)(long)x; }
void *forged_state(void *state, double x) { (void)x; return (char *)state + 1; }
int endless_set(int x, struct sfi_call *call) { call->done = 0; return x; }
int noisy(int x) { for (int i = 0; i < x; i++) sfi_log(99, (const char *)16, 1ul << 40); return sfi_log(SFI_NOTICE, "\xff\xfe", 2); }
int keep(int x) { static int kept; int was = kept; kept = x; return was; }
int crashing_set(int x, struct sfi_call *call) { if (call->row == 2) __builtin_trap(); return x; }
void *crashing_step(void *state, double x) { if (x > 3) __builtin_trap(); return state; }
