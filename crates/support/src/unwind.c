/* The unwinder: code of a domain, without any trust. It implements the base ABI of the Itanium C++
 * ABI ("C++ ABI for Itanium: Exception Handling", section 1) over the tables that the rewriter
 * writes (rewriter/src/output/unwind_table.rs describes them).
 *
 * The stub __sfi_return gives return addresses by their place on the control stack. A landing pad
 * is entered through __sfi_cut, which checks the depth and the slot that this code passes. So a
 * mistake here harms only the program itself.
 *
 * Compiled when a program with exceptions is linked, with unwind tables of its own, because it
 * first unwinds out of itself. */
#include <stddef.h>
#include <stdint.h>

typedef enum {
    _URC_NO_REASON = 0,
    _URC_FOREIGN_EXCEPTION_CAUGHT = 1,
    _URC_FATAL_PHASE2_ERROR = 2,
    _URC_FATAL_PHASE1_ERROR = 3,
    _URC_NORMAL_STOP = 4,
    _URC_END_OF_STACK = 5,
    _URC_HANDLER_FOUND = 6,
    _URC_INSTALL_CONTEXT = 7,
    _URC_CONTINUE_UNWIND = 8
} _Unwind_Reason_Code;

typedef int _Unwind_Action;
enum { SEARCH_PHASE = 1, CLEANUP_PHASE = 2, HANDLER_FRAME = 4, FORCE_UNWIND = 8, END_OF_STACK = 16 };

struct _Unwind_Exception {
    uint64_t class;
    void (*cleanup)(_Unwind_Reason_Code, struct _Unwind_Exception *);
    uint64_t private_1, private_2;
} __attribute__((aligned(16)));

struct _Unwind_Context;
typedef _Unwind_Reason_Code (*personality_fn)(int, _Unwind_Action, uint64_t, struct _Unwind_Exception *,
                                              struct _Unwind_Context *);
typedef _Unwind_Reason_Code (*stop_fn)(int, _Unwind_Action, uint64_t, struct _Unwind_Exception *,
                                       struct _Unwind_Context *, void *);
typedef _Unwind_Reason_Code (*trace_fn)(struct _Unwind_Context *, void *);

struct function {
    uint64_t personality;
    uint32_t exceptions, start; /* start: twice, and the flag */
};

struct call {
    uint32_t behind, row, function;
};

struct record {
    uint64_t base;
    uint32_t size, functions, calls, form;
    struct function function[];
};

struct row {
    uint8_t cfa_register, cfa_loaded, saved, by_rbp, pushed, words;
    uint16_t unused;
    int32_t cfa_offset;
    uint32_t arguments;
    int32_t distance[];
};

enum { RBX, RBP, R12, R13, R14, HOME, SAVED, SP = 7 };
/* The form of rows. */
enum { FORM = 1 };

/* A frame, at its call. */
struct _Unwind_Context {
    uint64_t saved[SAVED];
    uint64_t sp, ip;
    /* Number of words on the control stack where its function begins: the last one is the
     * function's return address, and registers that it saves follow. */
    uint64_t depth;
    /* For the landing pad: the values of rax and rdx, and its slot. */
    uint64_t result[2], landing;
    const struct record *record;
    const struct function *function;
    const struct row *row;
};

/* The buffer that setjmp fills (crates/support/src/jumps.rs). */
struct words {
    uint64_t rbx, rbp, r12, r13, r14, r15, home;
    uint32_t slot, depth;
};

int setjmp(struct words *) __attribute__((returns_twice));
_Noreturn void __sfi_resume(const struct words *, uint64_t rax, uint64_t rdx);
uint64_t __sfi_return(uint64_t index);
_Noreturn void abort(void);
extern const struct {
    uint64_t base;
} __sfi_header;
extern const char __start_sfi_unwind[] __attribute__((weak)), __stop_sfi_unwind[] __attribute__((weak));

/* Records, sorted by the address of their code. */
static struct entry {
    uint64_t base;
    const struct record *record;
} *index_;
static size_t entries;
/* There are at most as many records as dispatch slots. */
static struct entry static_index[1 << 17];

/* A dispatch slot holds the address of code. */
static uint64_t code_of(uint64_t slot) { return *(const uint64_t *)slot; }

static void sift(struct entry *heap, size_t root, size_t count) {
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) return;
        if (child + 1 < count && heap[child + 1].base > heap[child].base) child++;
        if (heap[root].base >= heap[child].base) return;
        struct entry other = heap[root];
        heap[root] = heap[child];
        heap[child] = other;
        root = child;
    }
}

static void make_index(void) {
    index_ = static_index;
    const char *at = __start_sfi_unwind;
    while (at < __stop_sfi_unwind) {
        const struct record *record = (const struct record *)at;
        at += record->size;
        /* Of objects that another release rewrote. */
        if (record->form != FORM) continue;
        index_[entries].base = code_of(record->base);
        index_[entries++].record = record;
    }
    for (size_t i = entries / 2; i-- > 0;) sift(index_, i, entries);
    for (size_t count = entries; count > 1;) {
        struct entry last = index_[--count];
        index_[count] = index_[0];
        index_[0] = last;
        sift(index_, 0, count);
    }
}

/* Of the libc. A domain without a libc has no threads. */
int sched_yield(void) __attribute__((weak));

/* Makes the index at the first throw, of whichever thread. */
static void need_index(void) {
    enum { NONE, BEGUN, MADE };
    static int state;
    int none = NONE;
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == MADE) return;
    if (__atomic_compare_exchange_n(&state, &none, BEGUN, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        make_index();
        __atomic_store_n(&state, MADE, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != MADE)
        if (sched_yield) sched_yield();
}

/* Finds the call that returns to context->ip. Returns whether the tables know it. */
static int find(struct _Unwind_Context *context) {
    context->function = 0;
    context->row = 0;
    need_index();
    size_t low = 0, high = entries;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (index_[middle].base < context->ip)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return 0;
    const struct record *record = index_[low - 1].record;
    uint64_t behind = context->ip - index_[low - 1].base;
    const struct call *calls = (const struct call *)&record->function[record->functions];
    size_t first = 0, last = record->calls;
    while (first < last) {
        size_t middle = (first + last) / 2;
        if (calls[middle].behind < behind)
            first = middle + 1;
        else
            last = middle;
    }
    if (first == record->calls || calls[first].behind != behind) return 0;
    context->record = record;
    context->function = &record->function[calls[first].function];
    context->row = (const struct row *)((const char *)record + calls[first].row);
    return 1;
}

/* Steps from a frame to its caller. Returns whether the tables know the caller. */
static int step(struct _Unwind_Context *context) {
    const struct row *row = context->row;
    if (!row || context->depth == 0) return 0;
    uint64_t from = row->cfa_register == SP ? context->sp : context->saved[row->cfa_register];
    uint64_t rbp = context->saved[RBP];
    uint64_t cfa = from + (int64_t)row->cfa_offset;
    if (row->cfa_loaded) cfa = *(const uint64_t *)cfa;
    const int32_t *distance = row->distance;
    for (int i = 0; i < SAVED; i++)
        if (row->saved >> i & 1) {
            int64_t place = *distance++;
            uint64_t base = row->by_rbp >> i & 1 ? rbp : cfa;
            context->saved[i] =
                row->pushed >> i & 1 ? __sfi_return(context->depth + place) : *(const uint64_t *)(base + place);
        }
    context->sp = cfa;
    context->ip = __sfi_return(--context->depth);
    if (!find(context) || context->depth < context->row->words) return 0;
    context->depth -= context->row->words;
    return 1;
}

static personality_fn personality(const struct _Unwind_Context *context) {
    uint64_t routine = context->function->personality;
    if (routine && context->function->start & 1) routine = *(const uint64_t *)routine;
    return (personality_fn)routine;
}

/* Fills in the frame that called setjmp. The slot holds its return address. */
static void begin(struct _Unwind_Context *context, const struct words *words) {
    context->saved[RBX] = words->rbx;
    context->saved[RBP] = words->rbp;
    context->saved[R12] = words->r12;
    context->saved[R13] = words->r13;
    context->saved[R14] = words->r14;
    context->saved[HOME] = words->home;
    context->sp = words->r15;
    context->depth = words->depth;
    context->ip = code_of(__sfi_header.base + words->slot % (1u << 31));
    find(context);
}

static _Noreturn void install(const struct _Unwind_Context *context) {
    struct words words = {
        context->saved[RBX],
        context->saved[RBP],
        context->saved[R12],
        context->saved[R13],
        context->saved[R14],
        context->sp + context->row->arguments,
        context->saved[HOME],
        (uint32_t)context->landing,
        (uint32_t)context->depth,
    };
    __sfi_resume(&words, context->result[0], context->result[1]);
}

/* The depth identifies a frame. private_2 is the handler's depth and one, so that it is never 0. */
static _Unwind_Reason_Code second_phase(struct _Unwind_Exception *exception, struct _Unwind_Context *context) {
    for (;;) {
        personality_fn routine = personality(context);
        int handler = context->depth + 1 == exception->private_2;
        if (routine) {
            _Unwind_Reason_Code code =
                routine(1, CLEANUP_PHASE | (handler ? HANDLER_FRAME : 0), exception->class, exception, context);
            if (code == _URC_INSTALL_CONTEXT) install(context);
            if (code != _URC_CONTINUE_UNWIND) return _URC_FATAL_PHASE2_ERROR;
        }
        if (handler || !step(context)) return _URC_FATAL_PHASE2_ERROR;
    }
}

static _Unwind_Reason_Code forced(struct _Unwind_Exception *exception, struct _Unwind_Context *context, int known) {
    stop_fn stop = (stop_fn)exception->private_1;
    void *argument = (void *)exception->private_2;
    for (;;) {
        int action = FORCE_UNWIND | CLEANUP_PHASE | (known ? 0 : END_OF_STACK);
        if (stop(1, action, exception->class, exception, context, argument) != _URC_NO_REASON)
            return _URC_FATAL_PHASE2_ERROR;
        if (!known) return _URC_END_OF_STACK;
        personality_fn routine = personality(context);
        if (routine) {
            _Unwind_Reason_Code code =
                routine(1, FORCE_UNWIND | CLEANUP_PHASE, exception->class, exception, context);
            if (code == _URC_INSTALL_CONTEXT) install(context);
            if (code != _URC_CONTINUE_UNWIND) return _URC_FATAL_PHASE2_ERROR;
        }
        known = step(context);
    }
}

_Unwind_Reason_Code _Unwind_RaiseException(struct _Unwind_Exception *exception) {
    struct words words;
    setjmp(&words);
    struct _Unwind_Context here, context;
    begin(&here, &words);
    if (!step(&here)) return _URC_END_OF_STACK;
    context = here;
    for (;;) {
        personality_fn routine = personality(&context);
        if (routine) {
            _Unwind_Reason_Code code = routine(1, SEARCH_PHASE, exception->class, exception, &context);
            if (code == _URC_HANDLER_FOUND) break;
            if (code != _URC_CONTINUE_UNWIND) return _URC_FATAL_PHASE1_ERROR;
        }
        if (!step(&context)) return _URC_END_OF_STACK;
    }
    exception->private_1 = 0;
    exception->private_2 = context.depth + 1;
    return second_phase(exception, &here);
}

_Unwind_Reason_Code _Unwind_ForcedUnwind(struct _Unwind_Exception *exception, stop_fn stop, void *argument) {
    struct words words;
    setjmp(&words);
    struct _Unwind_Context context;
    begin(&context, &words);
    exception->private_1 = (uint64_t)stop;
    exception->private_2 = (uint64_t)argument;
    return forced(exception, &context, step(&context));
}

void _Unwind_Resume(struct _Unwind_Exception *exception) {
    struct words words;
    setjmp(&words);
    struct _Unwind_Context context;
    begin(&context, &words);
    int known = step(&context);
    if (exception->private_1)
        forced(exception, &context, known);
    else if (known)
        second_phase(exception, &context);
    abort();
}

_Unwind_Reason_Code _Unwind_Resume_or_Rethrow(struct _Unwind_Exception *exception) {
    if (exception->private_1 == 0) return _Unwind_RaiseException(exception);
    struct words words;
    setjmp(&words);
    struct _Unwind_Context context;
    begin(&context, &words);
    forced(exception, &context, step(&context));
    abort();
}

_Unwind_Reason_Code _Unwind_Backtrace(trace_fn trace, void *argument) {
    struct words words;
    setjmp(&words);
    struct _Unwind_Context context;
    begin(&context, &words);
    while (step(&context))
        if (trace(&context, argument) != _URC_NO_REASON) return _URC_FATAL_PHASE1_ERROR;
    return _URC_END_OF_STACK;
}

void _Unwind_DeleteException(struct _Unwind_Exception *exception) {
    if (exception->cleanup) exception->cleanup(_URC_FOREIGN_EXCEPTION_CAUGHT, exception);
}

/* Returns the place of a register, by its DWARF number. */
static uint64_t *column(struct _Unwind_Context *context, int number) {
    switch (number) {
    case 0: return &context->result[0];
    case 1: return &context->result[1];
    case 3: return &context->saved[RBX];
    case 6: return &context->saved[RBP];
    case 7: return &context->sp;
    case 12: return &context->saved[R12];
    case 13: return &context->saved[R13];
    case 14: return &context->saved[R14];
    case 15: return &context->saved[HOME];
    default: abort();
    }
}

uint64_t _Unwind_GetGR(struct _Unwind_Context *context, int number) { return *column(context, number); }
void _Unwind_SetGR(struct _Unwind_Context *context, int number, uint64_t value) { *column(context, number) = value; }
uint64_t _Unwind_GetIP(struct _Unwind_Context *context) { return context->ip; }
uint64_t _Unwind_GetIPInfo(struct _Unwind_Context *context, int *before) {
    *before = 0;
    return context->ip;
}
/* A landing pad is given as the address of its slot. */
void _Unwind_SetIP(struct _Unwind_Context *context, uint64_t slot) { context->landing = slot; }
uint64_t _Unwind_GetCFA(struct _Unwind_Context *context) { return context->sp; }
const void *_Unwind_GetLanguageSpecificData(struct _Unwind_Context *context) {
    uint32_t offset = context->function->exceptions;
    return offset ? (const char *)context->record + offset : 0;
}
/* Call sites are offsets from this address. */
uint64_t _Unwind_GetRegionStart(struct _Unwind_Context *context) { return code_of(context->record->base); }
uint64_t _Unwind_GetDataRelBase(struct _Unwind_Context *context) { return context ? 0 : 0; }
uint64_t _Unwind_GetTextRelBase(struct _Unwind_Context *context) { return context ? 0 : 0; }
const void *_Unwind_FindEnclosingFunction(const void *address) {
    struct _Unwind_Context context = {.ip = (uint64_t)address};
    if (!find(&context)) return 0;
    return (const void *)(code_of(context.record->base) + (context.function->start >> 1));
}
