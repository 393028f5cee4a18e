/* A library whose constructor makes a query. One that gets an answer never ends. */
#include "sfi_pg.h"

static int64_t answered;

__attribute__((constructor)) static void begin(void)
{
    answered = sfi_query("SELECT 1", 8, 0, 0);
    for (volatile int i = 0; answered > 0; i++) ;
}

int64_t began(const char *text, size_t length) { (void)text, (void)length; return answered; }
int64_t ends(const char *text, size_t length) { (void)text, (void)length; __builtin_trap(); }
