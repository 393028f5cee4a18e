/* The library that the test puts into a sandbox. */
#include <stddef.h>
#include <stdint.h>

struct header { uint64_t base, tcb, heap_start, heap_end, stack_low, stack_high; };
extern const struct header __sfi_header;
extern long host_time(void);

struct point { double x, y; };
struct mixed { int count; float weight; };
struct large { const char *name; long numbers[5]; };
typedef long (*visitor)(void *context, long value);

long add(long a, long b) { return a + b; }
unsigned char narrow(unsigned char a, signed char b, _Bool c) { return (unsigned char)(a + b + c); }
float half(float x) { return x / 2; }
double all_kinds(int a, double b, char c, float d, long e, double f, short g, long h, long i, long j, double k)
{
    return a + b + c + d + (double)e + f + g + (double)h + (double)i + (double)j + k;
}
struct point mirror(struct point p) { return (struct point){p.y, p.x}; }
struct mixed mix(struct mixed a, struct mixed b) { return (struct mixed){a.count + b.count, a.weight * b.weight}; }
struct large fill(struct large from, long by)
{
    for (int i = 0; i < 5; i++) from.numbers[i] *= by;
    return from;
}
int *echo(int *pointer) { return pointer; }
void nothing(void) {}
long visit(visitor f, void *context, long count)
{
    long all = 0;
    for (long i = 0; i < count; i++) all += f(context, i);
    return all;
}
double visit_point(double (*f)(struct point, struct mixed, long, long, long, long, long, struct large), const char *name)
{
    struct large large = {name, {1, 2, 3, 4, 5}};
    return f((struct point){1, 2}, (struct mixed){3, 4}, 5, 6, 7, 8, 9, large);
}
struct large ask_large(struct large (*f)(long), long x) { return f(x); }
struct mixed ask_mixed(struct mixed (*f)(long), long x) { return f(x); }
/* Results in two registers, each of both classes. */
struct ints { long a, b; };
struct later { long a; double b; };
struct first { double a; long b; };
struct nine { long a; char b; };
struct ints ask_ints(struct ints (*f)(long), long x) { struct ints r = f(x); return (struct ints){r.b, r.a}; }
struct later ask_later(struct later (*f)(long), long x) { struct later r = f(x); return (struct later){2 * r.a, 2 * r.b}; }
struct first ask_first(struct first (*f)(long), long x) { struct first r = f(x); return (struct first){2 * r.a, 2 * r.b}; }
struct point ask_point(struct point (*f)(long), long x) { return mirror(f(x)); }
struct nine ask_nine(struct nine (*f)(long), long x) { return f(x); }
static long doubled(void *context, long value) { return (void)context, 2 * value; }
visitor internal(void) { return doubled; }
long exported(void *context, long value) { return (void)context, 3 * value; }
static visitor kept;
void keep(visitor f) { kept = f; }
long call_kept(long x) { return kept(NULL, x); }
long time_of_host(void) { return host_time(); }
static long counter;
long count(void) { return ++counter; }

/* Hostile. */
long crash(void) { *(volatile char *)16 = 1; return 0; }
uint64_t pointer_of(uint64_t value) { return value; }
struct large liar(uint64_t value) { return (struct large){(const char *)value, {0}}; }
static uint64_t top, lie;
void set_lie(uint64_t to) { lie = to; }

void *malloc(size_t size)
{
    if (lie) return (void *)lie;
    if (!top) top = (__sfi_header.heap_start + 15) & ~15ul;
    if (size > __sfi_header.heap_end - top) return NULL;
    void *found = (void *)top;
    top += (size + 15) & ~15ul;
    return found;
}
static long freed;
void free(void *p) { freed += p != NULL; }
long how_many_freed(void) { return freed; }
