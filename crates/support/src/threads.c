/* Functions of threads that libraries and objects built for glibc expect to differ from musl's. */

/* As musl's, but an exception may leave `run`. The next call then runs its function. */
struct cleanup {
    void (*run)(void *);
    void *argument;
    struct cleanup *next;
};
struct once {
    struct cleanup cancelled;
    int *control, done;
};
enum { UNUSED, RUNS, DONE, AWAITED };

void _pthread_cleanup_push(struct cleanup *, void (*)(void *), void *);
void _pthread_cleanup_pop(struct cleanup *, int);
long syscall(long, ...);

static long futex(int *word, int operation, int value) {
    enum { FUTEX = 202, PRIVATE = 128 };
    return syscall(FUTEX, word, operation | PRIVATE, value, 0);
}

static void set(int *control, int value) {
    enum { WAKE = 1 };
    if (__atomic_exchange_n(control, value, __ATOMIC_SEQ_CST) == AWAITED) futex(control, WAKE, 0x7fffffff);
}

static void undo(void *control) { set(control, UNUSED); }

static void conclude(struct once *once) {
    _pthread_cleanup_pop(&once->cancelled, 0);
    set(once->control, once->done ? DONE : UNUSED);
}

int pthread_once(int *control, void (*run)(void)) {
    enum { WAIT = 0 };
    for (;;) {
        int old = UNUSED;
        if (__atomic_compare_exchange_n(control, &old, RUNS, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            __attribute__((cleanup(conclude))) struct once once = {.control = control};
            _pthread_cleanup_push(&once.cancelled, undo, control);
            run();
            once.done = 1;
            return 0;
        }
        if (old == DONE) return 0;
        if (old == RUNS) __atomic_compare_exchange_n(control, &old, AWAITED, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        futex(control, WAIT, AWAITED);
    }
}

/* glibc's headers, which C++ is compiled with, write a mutex's type into its fifth word: the static
 * initialisers do, and so does std::recursive_mutex. musl reads the first word and does not use the
 * fifth. */
int __pthread_mutex_lock(int *);
int __pthread_mutex_trylock(int *);
int __pthread_mutex_timedlock(int *, const void *);

static int *typed(int *mutex) {
    enum { RECURSIVE = 1, ERRORCHECK = 2 };
    int type = __atomic_load_n(&mutex[4], __ATOMIC_RELAXED);
    /* Threads that come at the same time write the same word. */
    if (type == RECURSIVE || type == ERRORCHECK) __atomic_store_n(&mutex[0], type, __ATOMIC_RELAXED);
    return mutex;
}

int pthread_mutex_lock(int *mutex) { return __pthread_mutex_lock(typed(mutex)); }
int pthread_mutex_trylock(int *mutex) { return __pthread_mutex_trylock(typed(mutex)); }
int pthread_mutex_timedlock(int *mutex, const void *end) { return __pthread_mutex_timedlock(typed(mutex), end); }
