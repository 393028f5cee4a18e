/* Calls through the prototypes, and through a function pointer of the generated type. */
#include "codec.h"

static uint8_t plain[1000], packed[64];

int client(int room)
{
    for (int i = 0; i < 1000; i++)
        plain[i] = i / 100;
    uint64_t size = room;
    pack_fn through = pack;
    int status = through(packed, &size, plain, sizeof plain);
    if (status)
        return status;
    float values[3] = {1, 2, 6};
    int16_t numbers[8] = {1, 2, 3};
    count_up(numbers, 10);
    return size * 1000000 + packed[0] * 1000 + packed[3] * 100 + (int)mean(values, 3) * 10 + (numbers[2] == 13) + (nothing() == 0x123456789abcdef0);
}
