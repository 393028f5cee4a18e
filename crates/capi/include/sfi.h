/* sfi: untrusted native code in fault domains of this process. The loader for hosts written in C.
 *
 * A world holds domains, described by a manifest. Each domain's code was rewritten (`sfi rewrite`)
 * and is verified when it is loaded. It cannot store or jump outside its window, and it calls only
 * the functions that the manifest grants. Treat every value that a domain passes or returns as
 * hostile.
 *
 *     sfi_config *config = sfi_config_new();
 *     sfi_config_function(config, "log", host_log, my_log, NULL);
 *     if (sfi_world_open("plugin.toml", config, &world, &error)) { fail(error); }
 *     sfi_function_find(world, "plugin", "add", "(int, int) -> int", &add, &error);
 *     sfi_call(world, add, (sfi_value[]){sfi_i(1), sfi_i(2)}, 2, NULL, &sum, &error);
 *
 * Rules for all functions:
 *  - Status: a function that returns sfi_status returns SFI_OK (0), or the status of its error.
 *  - Errors: a parameter `sfi_error **error` may be NULL. Otherwise *error becomes NULL or a
 *    description, which the host frees with sfi_error_free. The previous value of *error is
 *    overwritten and not freed.
 *  - Handles and results must not be NULL unless the function's comment allows it. A NULL is
 *    SFI_INVALID. A handle is valid until it is freed, and is freed once, but not by a host
 *    function within a call of that handle. Freeing NULL does nothing. Text is UTF-8 with a zero
 *    byte at its end. An out-parameter that is no handle may be NULL if the host does not need it.
 *  - Threads: one thread at a time uses a world. It may be another thread each time. A use by two
 *    threads at once is SFI_IN_USE and does nothing, or the second one waits (sfi_config_sharing).
 *    Worlds of different threads know nothing of each other: a world per thread is never in use. A
 *    use within a function that forbids it is SFI_IN_USE. Closing a world while another thread uses
 *    it, or waits for it, is not detected. Several threads may use configs, functions, bound
 *    functions, code, templates, pools, servers and lanes while none changes or frees them.
 *  - Host functions run on the thread that uses the world. A host function may use that world while
 *    it runs; functions with the remark "not within a host function" return SFI_IN_USE there. It
 *    must return: no longjmp and no thread exit may leave it. A C++ exception that leaves it, or
 *    another function of the host that the library calls, ends the process.
 *  - Signals: the library handles SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGTRAP from the first world
 *    on, and SIGURG from the first limit on. It passes signals that belong to no domain to the
 *    handlers that were installed before. A handler that the host installs later must pass on the
 *    signals that it does not know, run on an alternate stack (SA_ONSTACK), and not call into a
 *    world. Threads must not block these signals. The GS base of threads that enter domains belongs
 *    to this library.
 *  - Nothing here ends the process or throws. A defect of this library is SFI_PANIC, and the
 *    domains that were running are dead.
 */
#ifndef SFI_H
#define SFI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SFI_API extern

typedef int sfi_status;

enum {
    SFI_OK = 0,
    SFI_FAULT = 1,     /* the domain faulted; it is dead until it is restarted */
    SFI_TIME = 2,      /* a limit or budget was used up; the domain is dead */
    SFI_DEAD = 3,      /* the domain faulted before */
    SFI_REFUSED = 4,   /* the domain cannot be entered now: it is active with an unusable stack,
                        * calls nest too deeply, or other lanes are in it */
    SFI_ARGUMENTS = 5, /* they do not fit the signature or declaration, a buffer is too short, or
                        * the data stack has no room */
    SFI_GONE = 6,      /* a reload removed the function, or it belongs to another world, or the
                        * pointer is no function */
    SFI_UNTIMED = 7,   /* limits of a call in a world without any (see sfi_config_limits), or
                        * within a host function */
    SFI_NOT_FOUND = 8, /* no such domain, function, symbol or region */
    SFI_BIND = 9,      /* the connection is not permitted, does not fit, or is needed by a call in
                        * progress */
    SFI_LOAD = 10,     /* an error of the manifest, of linking or of memory, or an object that the
                        * verifier refuses */
    SFI_BOUNDS = 11,   /* not memory of the domain or region, or not writable */
    SFI_INVALID = 12,  /* NULL, text that is not UTF-8, a bad signature or declaration */
    SFI_IN_USE = 13,   /* the world is in use, or this cannot be done within a host function */
    SFI_PANIC = 14,    /* a defect of this library */
    SFI_HOST = 15,     /* a host function returns it to fail: the caller gets its import's
                        * `on_fault` and __sfi_error 5 */
    SFI_EXIT = 16,     /* the domain's libc asked to exit; the domain is dead until it is
                        * restarted */
    SFI_NOT_READY = 17, /* the domain is dead; a call after the penalties of its owner restarts
                         * it */
    SFI_BUSY = 18,      /* all worlds of the pool or server, or all lanes, are in use */
    SFI_INSTRUCTIONS = 19 /* the budget of instructions is used up; the domain is dead */
};

/* What a thread does that finds a world in use. */
enum {
    SFI_SHARE_REFUSE = 0, /* it gets SFI_IN_USE */
    SFI_SHARE_LOCK = 1,   /* it waits; a thread that comes may go before those that wait */
    SFI_SHARE_QUEUE = 2   /* it waits; first come, first served */
};

/* The tools that see the code of domains. */
enum {
    SFI_DEBUG_GDB = 1, /* breakpoints by function and line, backtraces through domains */
    SFI_DEBUG_PERF = 2 /* /tmp/perf-PID.map, and a jitdump for `perf inject --jit` */
};

/* The target of a faulting access. */
enum {
    SFI_ADDRESS_NONE = 0,      /* the error is not a faulting access */
    SFI_ADDRESS_NULL = 1,      /* near NULL */
    SFI_ADDRESS_PROTECTED = 2, /* memory of the domain with a protection that forbids the access */
    SFI_ADDRESS_UNMAPPED = 3,  /* an unmapped part of the domain's window */
    SFI_ADDRESS_OUTSIDE = 4,   /* outside the window */
    SFI_ADDRESS_UNKNOWN = 5    /* not canonical */
};

typedef struct sfi_error sfi_error;
typedef struct sfi_config sfi_config;
typedef struct sfi_world sfi_world;
typedef struct sfi_function sfi_function;
typedef struct sfi_bound sfi_bound;
typedef struct sfi_prepared sfi_prepared;
typedef struct sfi_host_call sfi_host_call;
typedef struct sfi_code sfi_code;
typedef struct sfi_template sfi_template;
typedef struct sfi_pool sfi_pool;
typedef struct sfi_server sfi_server;
typedef struct sfi_lanes sfi_lanes;

/* An argument or result: an integer, a pointer in a domain's terms (u), or the bits of a
 * floating-point number. All 64 bits go to the domain. Make values with the functions below, so
 * that they hold no leftover bytes of the host's stack. */
typedef union sfi_value {
    uint64_t u;
    int64_t i;
    double f;
} sfi_value;

static inline sfi_value sfi_u(uint64_t number) { sfi_value v; v.u = number; return v; }
static inline sfi_value sfi_i(int64_t number) { sfi_value v; v.i = number; return v; }
static inline sfi_value sfi_f64(double number) { sfi_value v; v.f = number; return v; }
static inline sfi_value sfi_f32(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return sfi_u(bits);
}
static inline float sfi_as_f32(sfi_value value)
{
    uint32_t bits = (uint32_t)value.u;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* An argument of a function with a declaration: a value, or a buffer of `size` bytes. */
typedef struct sfi_argument {
    sfi_value value;
    void *data;
    size_t size;
} sfi_argument;

/* The size of `count` elements of `each` bytes, or 0 if no buffer can be that large. */
static inline size_t sfi_bytes(uint64_t count, size_t each)
{
    return count > PTRDIFF_MAX / each ? 0 : (size_t)count * each;
}

/* The arguments and results of a call at the places that the psABI gives them (section 3.2.3). */
typedef struct sfi_registers {
    uint64_t ints[6];          /* rdi, rsi, rdx, rcx, r8, r9 */
    uint64_t floats[8];        /* low halves of xmm0 to xmm7 */
    uint64_t use_floats;       /* not 0: `floats` are arguments */
    const uint64_t *stack;     /* words on the stack, the first one at the lowest address */
    size_t stack_words;
    uint64_t int_results[2];   /* rax, rdx */
    uint64_t float_results[2]; /* low halves of xmm0 and xmm1 */
} sfi_registers;

/* Limits of a call on wall clock and processor time, in nanoseconds. 0 is no limit. */
typedef struct sfi_limits {
    uint64_t wall_ns;
    uint64_t cpu_ns;
} sfi_limits;

/* The record of the faults of an owner's domains. */
typedef struct sfi_record {
    uint64_t faults;
    uint64_t outside;    /* faults of accesses outside the domain's own window */
    uint64_t delayed_ns; /* penalties so far */
    int suspicious;      /* the last faults look like a search for other domains */
} sfi_record;

/* A function of the host. It returns SFI_OK, or any other status for a failure. *result starts as
 * 0. For a floating-point result, store its bits there. If the signature of a lent function or a
 * callback has a structure of two eightbytes as its result, `result` is an array of two values. */
typedef sfi_status (*sfi_host_fn)(void *user, sfi_host_call *call, sfi_value *result);
/* A function of the host with a declaration. It gets one argument for each parameter. Its buffers
 * are the host's own copies, aligned for every type, and valid while the function runs. */
typedef sfi_status (*sfi_serve_fn)(void *user, sfi_host_call *call, const sfi_argument *arguments, sfi_value *result);
/* Decides whether a client may connect to an entry point (`domain.name`). Returns 0 for no.
 * `permitted` is the verdict of the rules. The function may not use the world. */
typedef int (*sfi_permission_fn)(void *user, const char *client, const char *entry, int permitted);
/* Keep images for the processes of a host, see sfi_config_images. */
typedef int (*sfi_image_find_fn)(void *user, const unsigned char *name);
typedef void (*sfi_image_keep_fn)(void *user, const unsigned char *name, int file);

/* The library's version, such as "0.1.0". */
SFI_API const char *sfi_version(void);

/* The parts of an error. Text belongs to the error, and is NULL if the error has no such part. No
 * text holds an address, because the places of domains are secrets. Names come from hostile
 * objects, but are short and hold no control characters. */
SFI_API sfi_status sfi_error_code(const sfi_error *error); /* SFI_INVALID for NULL */
SFI_API const char *sfi_error_message(const sfi_error *error);
SFI_API const char *sfi_error_domain(const sfi_error *error); /* the domain that faulted */
SFI_API const char *sfi_error_function(const sfi_error *error); /* the function that was running */
SFI_API uint64_t sfi_error_offset(const sfi_error *error); /* bytes from the function's start */
SFI_API const char *sfi_error_file(const sfi_error *error); /* from debug information */
SFI_API uint64_t sfi_error_line(const sfi_error *error); /* 0: not known */
SFI_API int sfi_error_address_class(const sfi_error *error); /* SFI_ADDRESS_... */
SFI_API const char *sfi_error_region(const sfi_error *error); /* the region that was accessed */
SFI_API const char *sfi_error_backtrace(const sfi_error *error); /* a line for each call */
SFI_API void sfi_error_free(sfi_error *error);

/* Shows the code of all domains that this process loads from now on to gdb, perf or both
 * (SFI_DEBUG_...), once for a process: a second call is SFI_IN_USE. It is for development. The
 * places of domains are secrets that keep them apart in the modes write and match, and what gdb and
 * perf read gives them away. */
SFI_API sfi_status sfi_debug_show(int tools, sfi_error **error);

/* A config: the functions and rules that the host offers to the worlds that it opens. It may be
 * freed after the last world was opened with it. The `user` pointers must stay valid as long as
 * those worlds. */
SFI_API sfi_config *sfi_config_new(void);
SFI_API void sfi_config_free(sfi_config *config);
/* Offers a function to domains. A manifest imports it with imports.SYMBOL = { host = "NAME",
 * signature = "(int, int) -> int" }. While the function runs it is not entered again. */
SFI_API sfi_status sfi_config_function(sfi_config *config, const char *name, sfi_host_fn function, void *user, sfi_error **error);
/* Offers a function with a declaration, such as "i32 put(in u8 data[count], u64 count)". Buffers
 * are copied once before the host sees them, and copied back. A domain can make the host allocate
 * as much memory as the domain has, once for each buffer. Imports of the function need a signature.
 * In it, integers and buffers are `int`, and floating-point numbers are `float`. */
SFI_API sfi_status sfi_config_serve(sfi_config *config, const char *name, const char *declaration, sfi_serve_fn function, void *user, sfi_error **error);
/* Adds a rule, like [[permit]] in a manifest: the client may connect to the entry point. Names may
 * end in `*`. */
SFI_API sfi_status sfi_config_permit(sfi_config *config, const char *client, const char *entry, sfi_error **error);
/* Lets domains with `clock` in the manifest read the processor's clock (rdtsc). Outside mode full
 * that is `clock = "exposing"`: such a domain finds the memory of other domains and of the host. */
SFI_API sfi_status sfi_config_clock(sfi_config *config, sfi_error **error);
/* Lets signal handlers of the host end calls (sfi_interrupt). A world without limits and budgets
 * then needs no thread of its own, and the library leaves SIGURG blocked. */
SFI_API sfi_status sfi_config_interruptible(sfi_config *config, sfi_error **error);
/* Promises that only the thread that opens a world uses it, and closes it. All other threads get
 * SFI_IN_USE, also when no call is in progress. Calls of the world are a few nanoseconds cheaper,
 * because they need no lock. */
SFI_API sfi_status sfi_config_one_thread(sfi_config *config, sfi_error **error);
/* Lets the processes of a host pass images of domains to each other, as the workers of a server do:
 * a domain that one of them loaded is neither verified nor linked again, and all map the same text.
 * `find` returns a descriptor of the file that some process kept under a name of 32 bytes, and
 * gives it away, or returns -1. `keep` gets a sealed memory file, which it closes some time. Both
 * must return, and use no world. The library takes files only that are sealed, of this user and of
 * this name. Whoever may run code in one of the processes can harm the others by such a file.
 * Domains cannot, but those of one image know each other's places in their windows. Only for worlds
 * with one domain. */
SFI_API sfi_status sfi_config_images(sfi_config *config, sfi_image_find_fn find, sfi_image_keep_fn keep, void *user, sfi_error **error);
/* Chooses what threads do that find a world of this config in use: SFI_SHARE_REFUSE (default),
 * SFI_SHARE_LOCK or SFI_SHARE_QUEUE. A thread waits as long as the call of the other one lasts. Two
 * threads that are each in a world, and wait for the world of the other in a host function, wait
 * for ever. */
SFI_API sfi_status sfi_config_sharing(sfi_config *config, int sharing, sfi_error **error);
/* Sets the function that has the last word on every connection. NULL: the rules alone decide. */
SFI_API sfi_status sfi_config_permission(sfi_config *config, sfi_permission_fn function, void *user, sfi_error **error);
/* Sets the limits of every call of the host, and allows limits for single calls. A limit of 0
 * leaves the manifest's. */
SFI_API sfi_status sfi_config_limits(sfi_config *config, sfi_limits limits, sfi_error **error);

/* Opens a world: loads the domains of a manifest, verifies, links, places and seals them, and runs
 * their initialisers. Paths in the manifest are relative to its directory. It needs no [entry].
 * `config` may be NULL. */
SFI_API sfi_status sfi_world_open(const char *manifest, const sfi_config *config, sfi_world **world, sfi_error **error);
/* Opens a world from the text of a manifest. Paths in it are relative to `directory`. */
SFI_API sfi_status sfi_world_open_text(const char *text, const char *directory, const sfi_config *config, sfi_world **world, sfi_error **error);
/* Runs the finalisers and frees the world, also if a finaliser fails. A world that is in use is not
 * freed. Not within a host function. */
SFI_API sfi_status sfi_world_close(sfi_world *world, sfi_error **error);

/* Names a domain of the manifest, counted from 0 in the order of the names. NULL after the last. */
SFI_API const char *sfi_world_domain(const sfi_world *world, size_t index);

/* Makes another instance of a domain, at a place of its own and with memory of its own. `name`
 * becomes its name, in a buffer of `size` bytes, such as "plugin#1". All functions take that name
 * instead of a domain's, except sfi_world_reload, sfi_world_reload_object and sfi_world_restart.
 * `reset` gives an instance back its first state at its place, `discard` takes its memory away.
 * Other domains cannot import from instances. Not within a host function. */
SFI_API sfi_status sfi_world_instantiate(sfi_world *world, const char *domain, char *name, size_t size, sfi_error **error);
SFI_API sfi_status sfi_instance_reset(sfi_world *world, const char *name, sfi_error **error);
SFI_API sfi_status sfi_instance_discard(sfi_world *world, const char *name, sfi_error **error);

/* Templates, pools and servers: worlds by the dozen. A template verifies, links and seals the
 * domain of a manifest once. Its worlds share the text, and cost little. The manifest has one
 * domain, with no imports but host functions, and without regions, entry points, an owner and
 * `syscalls`. The config offers functions (sfi_config_function), wall-clock limits, the clock and
 * sharing. Several threads may run its functions at once, in different worlds.
 *
 * Each world belongs to the host until sfi_world_close, and is a world like any other.
 * sfi_template_instance makes one with a place of its own, and sfi_world_close frees it. A pool
 * keeps `capacity` worlds. sfi_pool_take gives one in its first state. If all are in use, it is
 * SFI_BUSY, or with `wait` it waits. sfi_world_close resets it, so that no byte of its user stays,
 * and gives it back. A server keeps `instances` worlds, whose state stays. sfi_server_enter waits
 * for `wait_ns` nanoseconds, first come, first served. 0 does not wait, UINT64_MAX waits without
 * an end. SFI_BUSY is the answer if it was in vain, or if `most_waiting` threads wait already. A
 * template, pool or server may be freed before its worlds are closed. */
SFI_API sfi_status sfi_template_open(const char *manifest, const sfi_config *config, sfi_template **opened, sfi_error **error);
SFI_API sfi_status sfi_template_open_text(const char *text, const char *directory, const sfi_config *config, sfi_template **opened, sfi_error **error);
SFI_API sfi_status sfi_template_instance(const sfi_template *from, sfi_world **world, sfi_error **error);
SFI_API void sfi_template_free(sfi_template *handle);
SFI_API sfi_status sfi_pool_new(const sfi_template *from, size_t capacity, sfi_pool **pool, sfi_error **error);
SFI_API sfi_status sfi_pool_take(const sfi_pool *pool, int wait, sfi_world **world, sfi_error **error);
SFI_API void sfi_pool_free(sfi_pool *handle);
SFI_API sfi_status sfi_server_new(const sfi_template *from, size_t instances, size_t most_waiting, sfi_server **server, sfi_error **error);
SFI_API sfi_status sfi_server_enter(const sfi_server *server, uint64_t wait_ns, sfi_world **world, sfi_error **error);
SFI_API sfi_status sfi_server_state(const sfi_server *server, size_t *idle, size_t *waiting, sfi_error **error);
SFI_API void sfi_server_free(sfi_server *handle);

/* Lanes: one world that `count` threads of the host enter at once (1 to 64). Its domains and their
 * memory are the same in all lanes. A domain lets `threads` callers in at a time (manifest, default
 * 1). Others wait as `busy` in the manifest says, and then get SFI_REFUSED. So does a call that
 * would close a circle of waits. Outside mode full more than one caller needs `clock = "exposing"`.
 * A fault ends the domain for all lanes, and `restart` begins its next life when the last one is
 * out.
 *
 * A lane is a world for one thread at a time, until sfi_world_close gives it back. wait_ns is as
 * for sfi_server_enter. Functions that were found in a lane belong to it: find them in each. The
 * config offers functions (sfi_config_function), which several threads run at once, rules, limits,
 * the clock and sharing. Domains have no `syscalls`, and bindings and regions do not change. Lanes
 * may be freed before the last of them is closed. */
SFI_API sfi_status sfi_lanes_open(const char *manifest, const sfi_config *config, size_t count, sfi_lanes **opened, sfi_error **error);
SFI_API sfi_status sfi_lanes_open_text(const char *text, const char *directory, const sfi_config *config, size_t count, sfi_lanes **opened, sfi_error **error);
SFI_API sfi_status sfi_lanes_enter(const sfi_lanes *lanes, uint64_t wait_ns, sfi_world **world, sfi_error **error);
/* Load a domain again for all lanes, from the manifest's files, which are read again, or from one
 * object. They wait until no thread has a lane, and get SFI_BIND after wait_ns (UINT64_MAX waits
 * for as long as it takes). So threads give their lanes back between calls, and the caller has
 * none. If the domain is not accepted the old one stays. */
SFI_API sfi_status sfi_lanes_reload(const sfi_lanes *lanes, const char *domain, uint64_t wait_ns, sfi_error **error);
SFI_API sfi_status sfi_lanes_reload_object(const sfi_lanes *lanes, const char *domain, const void *object, size_t size, uint64_t wait_ns, sfi_error **error);
/* Count all lanes, and those that no thread has. */
SFI_API sfi_status sfi_lanes_count(const sfi_lanes *lanes, size_t *count, sfi_error **error);
SFI_API sfi_status sfi_lanes_idle(const sfi_lanes *lanes, size_t *idle, sfi_error **error);
SFI_API void sfi_lanes_free(sfi_lanes *handle);

/* Restarts a domain: gives it back the state in which it was built, with fresh data at the same
 * place. Not within a host function. */
SFI_API sfi_status sfi_world_restart(sfi_world *world, const char *domain, sfi_error **error);
/* Loads a domain again at a fresh place, from the manifest's files, which are read again, or from
 * one object. If that fails, the old domain stays. Its clients are connected again by name, and
 * functions that the host found before lead to the new domain. Not within a host function. */
SFI_API sfi_status sfi_world_reload(sfi_world *world, const char *domain, sfi_error **error);
SFI_API sfi_status sfi_world_reload_object(sfi_world *world, const char *domain, const void *object, size_t size, sfi_error **error);
/* Connect an import of a client to an entry point (`domain.name`), disconnect it, and add a rule
 * that permits a connection. */
SFI_API sfi_status sfi_world_connect(sfi_world *world, const char *client, const char *symbol, const char *entry, sfi_error **error);
SFI_API sfi_status sfi_world_disconnect(sfi_world *world, const char *client, const char *symbol, sfi_error **error);
SFI_API sfi_status sfi_world_permit(sfi_world *world, const char *client, const char *entry, sfi_error **error);
/* Give a domain its whole budget again, and read the time that it used, in nanoseconds. Not within
 * a host function. */
SFI_API sfi_status sfi_world_refill(sfi_world *world, const char *domain, sfi_error **error);
SFI_API sfi_status sfi_world_used(sfi_world *world, const char *domain, uint64_t *wall_ns, uint64_t *cpu_ns, sfi_error **error);
/* Says whether a domain is dead. *fault becomes its last fault, which the host frees, or NULL. That
 * is also a fault in a call by another domain. Not within a host function. */
SFI_API sfi_status sfi_world_state(sfi_world *world, const char *domain, int *dead, sfi_error **fault, sfi_error **error);
/* Reads the record of a domain's owner. SFI_NOT_FOUND if the domain has none. Not within a host
 * function. */
SFI_API sfi_status sfi_world_record(sfi_world *world, const char *domain, sfi_record *record, sfi_error **error);

/* The place and size of a domain's window. The base is a multiple of the size, and stays until the
 * domain is loaded again. It is a secret: other domains can find the domain's memory with it. Only
 * parts of the window are mapped. An access of the host to any other part is a fault of the host,
 * and what a domain may write changes under the host's eyes: prefer sfi_world_read. */
SFI_API sfi_status sfi_world_window(sfi_world *world, const char *domain, uint64_t *base, uint64_t *size, sfi_error **error);
/* Says whether an address lies in a window of this process, of whatever world: 1, and *base becomes
 * its base. Otherwise 0. For any thread. */
SFI_API int sfi_window_of(const void *address, uint64_t *base);
/* Call the domain's own global functions `malloc` and `free`, which `exports` in a manifest links.
 * *pointer becomes 0 if `malloc` says so, and otherwise leads to `size` bytes that the domain may
 * write: SFI_BOUNDS if its `malloc` returns anything else. */
SFI_API sfi_status sfi_world_malloc(sfi_world *world, const char *domain, size_t size, uint64_t *pointer, sfi_error **error);
SFI_API sfi_status sfi_world_free(sfi_world *world, const char *domain, uint64_t pointer, sfi_error **error);

/* Access a domain's memory by pointers in the domain's terms. The host reaches only memory that the
 * domain itself may read or write. Not within a host function: use sfi_host_read there.
 * sfi_world_symbol finds global variables, and function pointers of global functions, also within
 * a host function. A function has a pointer if the domain's code takes its address, or if
 * `pointers` in the manifest names it. */
SFI_API sfi_status sfi_world_symbol(sfi_world *world, const char *domain, const char *name, uint64_t *pointer, sfi_error **error);
SFI_API sfi_status sfi_world_read(sfi_world *world, const char *domain, uint64_t pointer, void *to, size_t size, sfi_error **error);
SFI_API sfi_status sfi_world_write(sfi_world *world, const char *domain, uint64_t pointer, const void *from, size_t size, sfi_error **error);

/* Access shared regions. The host reads and writes them by offset, not within a host function. A
 * region has one address for all domains that see it, as long as the world lives. `show` and `hide`
 * change whether a domain sees a region. */
SFI_API sfi_status sfi_region_size(sfi_world *world, const char *region, size_t *size, sfi_error **error);
SFI_API sfi_status sfi_region_read(sfi_world *world, const char *region, size_t offset, void *to, size_t size, sfi_error **error);
SFI_API sfi_status sfi_region_write(sfi_world *world, const char *region, size_t offset, const void *from, size_t size, sfi_error **error);
SFI_API sfi_status sfi_region_in(sfi_world *world, const char *domain, const char *region, uint64_t *pointer, sfi_error **error);
SFI_API sfi_status sfi_region_show(sfi_world *world, const char *domain, const char *region, int writable, sfi_error **error);
SFI_API sfi_status sfi_region_hide(sfi_world *world, const char *domain, const char *region, sfi_error **error);

/* Finds a global function of a domain. The signature, such as "(int, float) -> float", is made of
 * `int`, `ptr` (passed as it is), `float` (float or double) and `fn(..) -> ..` (a pointer from
 * sfi_world_lend, or 0). It is a convention between the host and the domain's author. A wrong
 * signature gives wrong values, but lets the domain do no more than it could anyway.
 * sfi_function_at takes a function pointer of the domain instead of a name. Of the pointer only
 * that counts which an indirect call of the domain uses. The function is gone after a reload.
 *
 * An argument or the result may be a structure of up to 16 bytes, which is passed by value, such as
 * "({int, float}, int) -> {int, int}". Its eightbytes are listed: `float` if they hold only float
 * or double, otherwise `int`. In a call each is a value of its own, and `result` is an array of two
 * values for a structure of two. Such signatures have no `fn`. */
SFI_API sfi_status sfi_function_at(sfi_world *world, const char *domain, uint64_t pointer, const char *signature, sfi_function **function, sfi_error **error);
SFI_API sfi_status sfi_function_find(sfi_world *world, const char *domain, const char *name, const char *signature, sfi_function **function, sfi_error **error);
/* Calls a function. `arguments` may be NULL if `count` is 0. With `limits` NULL the world's own
 * limits hold. `result` may be NULL. */
SFI_API sfi_status sfi_call(sfi_world *world, const sfi_function *function, const sfi_value *arguments, size_t count, const sfi_limits *limits, sfi_value *result, sfi_error **error);
SFI_API void sfi_function_free(sfi_function *function);

/* Call a function by a function pointer, with arguments that the host has sorted into registers and
 * stack words, and get all registers for results. Everything crosses that the psABI can pass.
 * sfi_abi.hpp sorts them for hosts in C++. `code` may be called within its own calls. */
SFI_API sfi_status sfi_code_find(sfi_world *world, const char *domain, uint64_t pointer, sfi_code **code, sfi_error **error);
SFI_API sfi_status sfi_code_call(sfi_world *world, const sfi_code *code, sfi_registers *registers, sfi_error **error);
SFI_API void sfi_code_free(sfi_code *code);

/* Prepared calls, for functions that are called very often. A call allocates nothing and looks
 * nothing up. Buffers are copied once, by the host itself, to the place where the callee reads
 * them (the A-stack of Bryce & Muller 1995, section 3.2):
 *
 *     sfi_prepare(world, "plugin", "area", "(ptr, int) -> float", &area, &error);
 *     ...
 *     sfi_prepared_room(world, area, size, &room, &error);
 *     memcpy(room, points, size);
 *     sfi_value arguments[] = {sfi_u((uintptr_t)room), sfi_u(count)};
 *     sfi_prepared_call(world, area, arguments, &result, &error);
 *
 * sfi_prepare takes a signature as sfi_function_find, and is not for use within a host function.
 * sfi_prepared_room makes room of `size` bytes on the callee's data stack, at a multiple of 16.
 * The host writes there, and passes the address, or addresses within, as arguments. The room
 * belongs to the next call of this prepared function, with no other use of the world between
 * them, and is gone after it. Each sfi_prepared_room replaces the room before. The bytes hold
 * leftovers of the callee. SFI_ARGUMENTS if the data stack has no room (`stack` in a manifest).
 * A dead domain that the manifest restarts is restarted here or in the call. `arguments` holds
 * one value for each parameter of the signature, at most 12. The limits are the world's. Within a
 * call of a prepared function a host function cannot use it: SFI_IN_USE. Prepare another one.
 *
 * sfi_prepared_view checks that `size` bytes at a pointer in the domain's terms, such as a result,
 * are memory of the domain, and gives the host's address of them, to be read in place: SFI_BOUNDS
 * otherwise. Until the next use of the world the bytes stay, if no other domain or thread writes to
 * them through a shared region. They are the domain's: copy what you check. */
SFI_API sfi_status sfi_prepare(sfi_world *world, const char *domain, const char *name, const char *signature, sfi_prepared **prepared, sfi_error **error);
SFI_API sfi_status sfi_prepared_room(sfi_world *world, sfi_prepared *prepared, size_t size, void **room, sfi_error **error);
SFI_API sfi_status sfi_prepared_call(sfi_world *world, sfi_prepared *prepared, const sfi_value *arguments, sfi_value *result, sfi_error **error);
SFI_API sfi_status sfi_prepared_view(sfi_world *world, sfi_prepared *prepared, uint64_t pointer, size_t size, const void **memory, sfi_error **error);
SFI_API void sfi_prepared_free(sfi_prepared *prepared);

/* Ends the call that this thread has in progress, with all domains that it leads through: the call
 * returns SFI_TIME. The config needs sfi_config_interruptible or limits. For signal handlers that
 * the host installed with SA_SIGINFO | SA_ONSTACK, with their third argument. May also be called in
 * a host function with NULL: then the call ends when the host function returns. Async-signal-safe
 * once this thread has called into a domain. Returns 1 if nothing is left to do: a running domain
 * was ended, or this thread has no call that can be interrupted. Returns 0 if a gate or a host
 * function runs. The call ends when the host function returns, or at the next gate, but a domain
 * that runs on without a gate does not end: interrupt again some milliseconds later until the call
 * has returned. */
SFI_API int sfi_interrupt(void *context);

/* Find and call a function by a declaration, which holds its name. The call copies buffers to the
 * domain's data stack, and copies `out` and `inout` buffers back. `size` is the size of the
 * host's buffer: SFI_ARGUMENTS if the declaration asks for more. Buffers may overlap. If other
 * threads write to a buffer during the call, the domain sees old or new elements, and lengths stay
 * those that were checked. `sfi bind --emit c-host` writes typed wrappers. */
SFI_API sfi_status sfi_bound_find(sfi_world *world, const char *domain, const char *declaration, sfi_bound **bound, sfi_error **error);
SFI_API sfi_status sfi_bound_call(sfi_world *world, const sfi_bound *bound, const sfi_argument *arguments, size_t count, const sfi_limits *limits, sfi_value *result, sfi_error **error);
SFI_API void sfi_bound_free(sfi_bound *bound);

/* Lends a function of the host to a domain. *pointer becomes a function pointer in the domain's
 * terms, for arguments that the domain expects to be functions. The signature is that of the
 * domain's calls. The pointer works until the function is taken back, or the domain is restarted or
 * reloaded. Later calls through it fail for the domain with __sfi_error 7. The loan uses one of the
 * domain's gateways for functions (`callbacks` in a manifest), which stays with `name` until the
 * domain is restarted or reloaded. SFI_BIND if no gateway is left, or if a function of this name is
 * lent already. Not within a host function. */
SFI_API sfi_status sfi_world_lend(sfi_world *world, const char *domain, const char *name, const char *signature, sfi_host_fn function, void *user, uint64_t *pointer, sfi_error **error);
SFI_API sfi_status sfi_world_take_back(sfi_world *world, const char *domain, const char *name, sfi_error **error);

/* Register a callback: a function of the host that may come and go while domains run, also within a
 * host function, and that may be called again while it runs. It is lent as by sfi_world_lend, and
 * may have structures in its signature, as for sfi_function_at: read them with sfi_host_registers,
 * and store the eightbytes of a result in result[0] and result[1]. Unregistered, its
 * gateway is free for callbacks of other names. So the number of callbacks at a time is bounded
 * (`callbacks` in a manifest, SFI_BIND beyond), and not their number in all. A pointer that the
 * domain keeps leads nowhere then, until another callback has the gateway. (If the domain has
 * instances, gateways stay with their names, as for sfi_world_lend.) A callback may
 * unregister itself while it runs. Afterwards its `user` is not used, unless it runs. */
SFI_API sfi_status sfi_callback_register(sfi_world *world, const char *domain, const char *name, const char *signature, sfi_host_fn function, void *user, uint64_t *pointer, sfi_error **error);
SFI_API sfi_status sfi_callback_unregister(sfi_world *world, const char *domain, const char *name, sfi_error **error);

/* For use within a host function: its caller, its arguments, counted from 0, and its caller's
 * memory. A `sfi_host_call` is valid until the host function returns. */
SFI_API const char *sfi_host_caller(sfi_host_call *call);
SFI_API uint64_t sfi_host_argument(sfi_host_call *call, size_t index);
SFI_API double sfi_host_f64(sfi_host_call *call, size_t index);
SFI_API float sfi_host_f32(sfi_host_call *call, size_t index);
/* Copies all arguments: `ints` and `floats` of *registers, and the first `words` words of the
 * caller's data stack. What the signature does not have is 0. */
SFI_API sfi_status sfi_host_registers(sfi_host_call *call, sfi_registers *registers, uint64_t *stack, size_t words, sfi_error **error);
SFI_API sfi_status sfi_host_read(sfi_host_call *call, uint64_t pointer, void *to, size_t size, sfi_error **error);
SFI_API sfi_status sfi_host_write(sfi_host_call *call, uint64_t pointer, const void *from, size_t size, sfi_error **error);
/* Copies a C string of the caller, with its zero byte. SFI_BOUNDS if it has no end within `size`
 * bytes. */
SFI_API sfi_status sfi_host_read_string(sfi_host_call *call, uint64_t pointer, char *to, size_t size, sfi_error **error);
/* Calls a function of the caller by a function pointer that it passed. If the caller's import
 * declares the argument as `fn`, the pointer is one of the caller's functions or 0. Other values
 * never reach the host. */
SFI_API sfi_status sfi_host_callback(sfi_host_call *call, uint64_t pointer, const char *signature, const sfi_value *arguments, size_t count, sfi_value *result, sfi_error **error);

#ifdef __cplusplus
}
#endif

#endif /* SFI_H */
