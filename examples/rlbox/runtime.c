/* The functions of a C library that expat calls. Its heap only grows, and ends with the sandbox. */
#include <stddef.h>
#include <stdint.h>

struct header { uint64_t base, tcb, heap_start, heap_end, stack_low, stack_high; };
extern const struct header __sfi_header;
extern void host_random(void *to, size_t size);

void *memcpy(void *to, const void *from, size_t size)
{
    for (size_t i = 0; i < size; i++) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memmove(void *to, const void *from, size_t size)
{
    if ((uintptr_t)to <= (uintptr_t)from) return memcpy(to, from, size);
    while (size--) ((char *)to)[size] = ((const char *)from)[size];
    return to;
}
void *memset(void *to, int byte, size_t size)
{
    for (size_t i = 0; i < size; i++) ((char *)to)[i] = (char)byte;
    return to;
}
int memcmp(const void *a, const void *b, size_t size)
{
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < size; i++)
        if (x[i] != y[i]) return x[i] - y[i];
    return 0;
}
size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length]) length++;
    return length;
}

/* Each block has its size in front. */
static uint64_t top;
void *malloc(size_t size)
{
    if (!top) top = (__sfi_header.heap_start + 15) & ~15ul;
    if (size > __sfi_header.heap_end - top || __sfi_header.heap_end - top - size < 32) return NULL;
    size_t *block = (size_t *)top;
    top += 16 + ((size + 15) & ~15ul);
    block[0] = size;
    return block + 2;
}
void free(void *block) { (void)block; }
void *realloc(void *block, size_t size)
{
    void *found = malloc(size);
    if (found && block) memcpy(found, block, ((size_t *)block)[-2] < size ? ((size_t *)block)[-2] : size);
    return found;
}

void arc4random_buf(void *to, size_t size) { host_random(to, size); }
char *getenv(const char *name) { return (void)name, NULL; }
int *__errno_location(void)
{
    static int number;
    return &number;
}
_Noreturn void abort(void) { __builtin_trap(); }
_Noreturn void __stack_chk_fail(void) { abort(); }
_Noreturn void __assert_fail(void) { abort(); }
/* Only messages for debugging. */
void *stderr;
unsigned long strtoul(const char *text, char **end, int base) { return (void)text, (void)end, (void)base, 0; }
int __fprintf_chk(void) { return 0; }
int fputs(const char *text, void *file) { return (void)text, (void)file, 0; }
size_t fwrite(const void *data, size_t size, size_t count, void *file) { return (void)data, (void)size, (void)file, count; }
