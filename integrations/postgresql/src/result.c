/* sfi_result: one buffer of the domain, which grows. */
#include "sfi_pg.h"

void *sfi_result(size_t size)
{
    static void *buffer;
    static size_t room;

    if (size > room) {
        free(buffer);
        room = 0;
        buffer = malloc(size < 256 ? 256 : size);
        if (!buffer) __builtin_trap();
        room = size < 256 ? 256 : size;
    }
    return buffer;
}
