/* The interface `codec`, written by `sfi bind`. Calls cross between domains: buffers are copied, the callee never sees the
   caller's memory. A call that fails returns the import's `on_fault` and sets __sfi_error. */
#ifndef SFI_INTERFACE_CODEC_H
#define SFI_INTERFACE_CODEC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* i32 pack(out u8 packed[*size], inout u64 size[1], in u8 plain[count], u64 count) */
int32_t pack(uint8_t *packed, uint64_t *size, const uint8_t *plain, uint64_t count);
typedef int32_t (*pack_fn)(uint8_t *packed, uint64_t *size, const uint8_t *plain, uint64_t count);

/* f64 mean(in f32 values[count], u32 count) */
double mean(const float *values, uint32_t count);
typedef double (*mean_fn)(const float *values, uint32_t count);

/* void count_up(inout i16 numbers[8], i16 step) */
void count_up(int16_t *numbers, int16_t step);
typedef void (*count_up_fn)(int16_t *numbers, int16_t step);

/* u64 nothing() */
uint64_t nothing(void);
typedef uint64_t (*nothing_fn)(void);

#ifdef __cplusplus
}
#endif

#endif /* SFI_INTERFACE_CODEC_H */
