/* Functions that libraries built for glibc need and musl does not have. The libraries are
 * libstdc++, Rust's std and libgfortran. */
#include <stddef.h>
#include <stdint.h>

/* Says that counts need no atomics. Changes at the start of a program that may have threads. */
char __libc_single_threaded = 1;
/* The first byte of musl's record of the program: the arbiter allows threads. */
extern char __libc[];

/* Stock libraries test one of these functions by a weak reference, and then call the others: all
 * are there, or none. */
#define GTHREADS(X) \
    X(pthread_once) X(pthread_getspecific) X(pthread_create) X(pthread_join) X(pthread_equal) X(pthread_self) \
    X(pthread_detach) X(pthread_cancel) X(sched_yield) X(pthread_mutex_lock) X(pthread_mutex_trylock) \
    X(pthread_mutex_unlock) X(pthread_mutex_init) X(pthread_mutex_destroy) X(pthread_cond_init) \
    X(pthread_cond_broadcast) X(pthread_cond_signal) X(pthread_cond_wait) X(pthread_cond_destroy) \
    X(pthread_key_delete) X(pthread_mutexattr_init) X(pthread_mutexattr_settype) X(pthread_mutexattr_destroy) \
    X(pthread_rwlock_rdlock) X(pthread_rwlock_tryrdlock) X(pthread_rwlock_wrlock) X(pthread_rwlock_trywrlock) \
    X(pthread_rwlock_unlock) X(pthread_rwlock_init) X(pthread_rwlock_destroy)
#define DECLARE(name) void name(void);
#define ADDRESS(name) name,
GTHREADS(DECLARE)
__attribute__((used)) static void (*const gthreads[])(void) = {GTHREADS(ADDRESS)};

struct destructor {
    struct destructor *next;
    void (*run)(void *);
    void *object;
};

static _Thread_local struct destructor *destructors;

void *malloc(size_t);
void free(void *);
long getrandom(void *, size_t, unsigned);
_Noreturn void abort(void);
_Noreturn void _Exit(int);
void __funcs_on_exit(void) __attribute__((weak));
void __stdio_exit(void) __attribute__((weak));
extern void (*const __fini_array_start[])(void), (*const __fini_array_end[])(void);

int pthread_key_create(unsigned *, void (*)(void *));
int pthread_setspecific(unsigned, const void *);

/* The key whose destructor runs those of a further thread's locals. */
static unsigned key;

static void run_destructors(void *unused) {
    (void)unused;
    while (destructors) {
        struct destructor *first = destructors;
        destructors = first->next;
        first->run(first->object);
        free(first);
    }
}

__attribute__((constructor)) static void allow_threads(void) {
    if (__libc[0] && pthread_key_create(&key, run_destructors) == 0) __libc_single_threaded = 0;
}

int __cxa_thread_atexit_impl(void (*run)(void *), void *object, void *library) {
    (void)library;
    struct destructor *new = malloc(sizeof *new);
    if (!new) abort();
    *new = (struct destructor){destructors, run, object};
    destructors = new;
    if (!__libc_single_threaded) pthread_setspecific(key, new);
    return 0;
}

/* As musl's exit, but the destructors of thread locals run before everything else. */
_Noreturn void exit(int code) {
    run_destructors(NULL);
    if (__funcs_on_exit) __funcs_on_exit();
    for (size_t i = (size_t)(__fini_array_end - __fini_array_start); i-- > 0;) __fini_array_start[i]();
    if (__stdio_exit) __stdio_exit();
    _Exit(code);
}

/* Waits until a time of any clock. musl's wait until a time of the real one. */
struct timespec {
    long seconds, nanoseconds;
};
int clock_gettime(int, struct timespec *);
int pthread_cond_timedwait(void *, void *, const struct timespec *);
int pthread_mutex_timedlock(void *, const struct timespec *);
int pthread_rwlock_timedrdlock(void *, const struct timespec *);
int pthread_rwlock_timedwrlock(void *, const struct timespec *);
int sem_timedwait(void *, const struct timespec *);

static struct timespec real(int clock, const struct timespec *end) {
    struct timespec now, own;
    clock_gettime(0, &now);
    clock_gettime(clock, &own);
    long nanoseconds = end->nanoseconds - own.nanoseconds + now.nanoseconds;
    long carry = nanoseconds < 0 ? -1 : nanoseconds / 1000000000;
    return (struct timespec){end->seconds - own.seconds + now.seconds + carry, nanoseconds - carry * 1000000000};
}

int pthread_cond_clockwait(void *condition, void *mutex, int clock, const struct timespec *end) {
    struct timespec time = real(clock, end);
    return pthread_cond_timedwait(condition, mutex, &time);
}

int pthread_mutex_clocklock(void *mutex, int clock, const struct timespec *end) {
    struct timespec time = real(clock, end);
    return pthread_mutex_timedlock(mutex, &time);
}

int pthread_rwlock_clockrdlock(void *lock, int clock, const struct timespec *end) {
    struct timespec time = real(clock, end);
    return pthread_rwlock_timedrdlock(lock, &time);
}

int pthread_rwlock_clockwrlock(void *lock, int clock, const struct timespec *end) {
    struct timespec time = real(clock, end);
    return pthread_rwlock_timedwrlock(lock, &time);
}

int sem_clockwait(void *semaphore, int clock, const struct timespec *end) {
    struct timespec time = real(clock, end);
    return sem_timedwait(semaphore, &time);
}

/* libstdc++ reads a locale_t in glibc's layout: thirteen pointers, and then tables of character
 * classes. musl's functions read six pointers at its start, which are null for the C locale. These
 * locales are never changed or freed. */
struct locale {
    const void *category[13];
    const unsigned short *class;
    const int *lower, *upper;
    const char *name[13];
};

extern const char __c_dot_utf8[];
const unsigned short **__ctype_b_loc(void);
const int **__ctype_tolower_loc(void);
const int **__ctype_toupper_loc(void);
int *__errno_location(void);
int strcmp(const char *, const char *);

struct locale *__newlocale(int mask, const char *name, struct locale *base) {
    static struct locale c, utf8;
    enum { ENOENT = 2, CTYPE = 0 };
    (void)mask, (void)base;
    int is_utf8 = !strcmp(name, "C.UTF-8") || !strcmp(name, "C.utf8");
    if (!is_utf8 && strcmp(name, "C") && strcmp(name, "POSIX") && *name) {
        *__errno_location() = ENOENT;
        return 0;
    }
    struct locale *it = is_utf8 ? &utf8 : &c;
    it->class = *__ctype_b_loc();
    it->lower = *__ctype_tolower_loc();
    it->upper = *__ctype_toupper_loc();
    for (int i = 0; i < 13; i++) it->name[i] = is_utf8 ? "C.UTF-8" : "C";
    it->category[CTYPE] = is_utf8 ? __c_dot_utf8 : 0;
    return it;
}

struct locale *__duplocale(struct locale *locale) { return locale; }
void __freelocale(struct locale *locale) { (void)locale; }
struct locale *newlocale(int, const char *, struct locale *) __attribute__((alias("__newlocale")));
struct locale *duplocale(struct locale *) __attribute__((alias("__duplocale")));
void freelocale(struct locale *) __attribute__((alias("__freelocale")));

/* For Rust's std. It calls __res_init only if the version is older than 2.26. */
const char *gnu_get_libc_version(void) { return "2.36"; }
int __res_init(void) { return 0; }

/* For libquadmath. printf cannot learn new conversions here. */
int register_printf_modifier(const void *text) { return text ? -1 : -1; }
int register_printf_type(void (*type)(void)) { return type ? -1 : -1; }
int register_printf_specifier(int letter, void (*print)(void), void (*size)(void)) {
    return letter && print && size ? -1 : -1;
}

uint32_t arc4random(void) {
    uint32_t value;
    if (getrandom(&value, sizeof value, 0) != sizeof value) abort();
    return value;
}
