/* Run-length coding: pairs of count and byte. */
#include "codec.h"

int32_t pack(uint8_t *packed, uint64_t *size, const uint8_t *plain, uint64_t count)
{
    uint64_t used = 0;
    for (uint64_t i = 0; i < count;) {
        uint64_t run = 1;
        while (i + run < count && plain[i + run] == plain[i] && run < 255)
            run++;
        if (used + 2 > *size)
            return -1;
        packed[used++] = run;
        packed[used++] = plain[i];
        i += run;
    }
    *size = used;
    return 0;
}

double mean(const float *values, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

void count_up(int16_t *numbers, int16_t step)
{
    for (int i = 0; i < 8; i++)
        numbers[i] += step;
}

uint64_t nothing(void)
{
    return 0x123456789abcdef0;
}
