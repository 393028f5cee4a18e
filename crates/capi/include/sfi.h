/* sfi: untrusted native code in fault domains of this process. The loader for hosts written in C.
 *
 * A world holds domains, described by a manifest. Each domain's code was rewritten (`sfi rewrite`)
 * and is verified when it is loaded; it cannot store or jump outside its window, and calls only
 * what the manifest grants. What a domain passes and returns is its author's: hostile.
 *
 *     sfi_config *config = sfi_config_new();
 *     sfi_config_function(config, "log", host_log, my_log, NULL);
 *     if (sfi_world_open("plugin.toml", config, &world, &error)) { fail(error); }
 *     sfi_function_find(world, "plugin", "add", "(int, int) -> int", &add, &error);
 *     sfi_call(world, add, (sfi_value[]){sfi_i(1), sfi_i(2)}, 2, NULL, &sum, &error);
 *
 * Rules for all functions:
 *  - A result of type sfi_status is SFI_OK (0) or says what went wrong. Where there is `sfi_error
 *    **error`, it may be NULL; else *error becomes NULL or a description, which the host frees with
 *    sfi_error_free. What was in *error before is not freed.
 *  - Handles and results are never NULL unless that is said; a NULL is SFI_INVALID. Handles are
 *    valid until they are freed, and are freed once. Freeing NULL does nothing. Text is UTF-8 with
 *    a zero byte at its end. Out-parameters may be NULL if the host does not care, but for handles.
 *  - A world is used by one thread at a time; it may be another one each time, after the host made
 *    them agree. Use by two at once, or within a function where that cannot be, is SFI_IN_USE and
 *    does nothing; closing a world while another thread uses it is a mistake that nobody finds.
 *    Configs, functions and bound functions may be used by several threads while none changes or
 *    frees them.
 *  - A host function gets calls on the thread that uses the world. It may use that world as long as
 *    it runs (where functions say "not within a host function", it is SFI_IN_USE). It returns: no
 *    longjmp, no C++ exception, no thread exit out of it.
 *  - Signals: SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGTRAP are handled from the first world on,
 *    SIGURG from the first limit on. What is no domain's goes to the handlers that were there
 *    before. Handlers that the host installs later must pass on what they do not know, run on an
 *    alternate stack (SA_ONSTACK), and not call into a world. Threads must not block these signals.
 *    The GS base of threads that enter domains belongs to this library.
 *  - Nothing here ends the process or throws; a defect of this library is SFI_PANIC, and the
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
    SFI_FAULT = 1,      /* the domain faulted; it is dead until it is restarted */
    SFI_TIME = 2,       /* a limit or budget was used up; the domain is dead */
    SFI_DEAD = 3,       /* the domain faulted before */
    SFI_REFUSED = 4,    /* the domain cannot be entered now: it is active with an unusable stack, or calls nest too deeply */
    SFI_ARGUMENTS = 5,  /* not what the signature or declaration says, a buffer is too short, or there is no room on the data stack */
    SFI_GONE = 6,       /* the function went away with a reload, or is another world's, or the pointer is no function */
    SFI_UNTIMED = 7,    /* limits of a call in a world without any (see sfi_config_limits), or within a host function */
    SFI_NOT_FOUND = 8,  /* no such domain, function, symbol or region */
    SFI_BIND = 9,       /* the connection is not permitted, does not fit, or is needed by a call in progress */
    SFI_LOAD = 10,      /* the manifest, an object that the verifier refuses, linking, memory */
    SFI_BOUNDS = 11,    /* not memory of the domain or region, or not writable */
    SFI_INVALID = 12,   /* NULL, text that is not UTF-8, a bad signature or declaration */
    SFI_IN_USE = 13,    /* the world is in use, or this cannot be done within a host function */
    SFI_PANIC = 14,     /* a defect of this library */
    SFI_HOST = 15,      /* for host functions to return: the caller gets its import's `on_fault` and __sfi_error 5 */
    SFI_EXIT = 16,      /* the domain's libc asked to exit; the domain is dead until it is restarted */
    SFI_NOT_READY = 17  /* the domain is dead and is restarted by a later call, when the penalties of its owner are over */
};

/* Where a faulting access went. */
enum {
    SFI_ADDRESS_NONE = 0,      /* the error is no fault of an access */
    SFI_ADDRESS_NULL = 1,      /* near NULL */
    SFI_ADDRESS_PROTECTED = 2, /* memory of the domain that does not allow it */
    SFI_ADDRESS_UNMAPPED = 3,  /* the domain's window, where nothing is */
    SFI_ADDRESS_OUTSIDE = 4,   /* outside the window */
    SFI_ADDRESS_UNKNOWN = 5    /* not canonical */
};

typedef struct sfi_error sfi_error;
typedef struct sfi_config sfi_config;
typedef struct sfi_world sfi_world;
typedef struct sfi_function sfi_function;
typedef struct sfi_bound sfi_bound;
typedef struct sfi_host_call sfi_host_call;

/* An argument or result: an integer, a pointer in a domain's terms (u), or the bits of a
 * floating-point number. All 64 bits go to the domain: make values with the functions below, so
 * that no bytes of the host's stack go along. */
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

/* Bytes of so many elements; 0 if no buffer has so many. */
static inline size_t sfi_bytes(uint64_t count, size_t each)
{
    return count > PTRDIFF_MAX / each ? 0 : (size_t)count * each;
}

/* Limits of a call: wall clock and processor time, nanoseconds; 0 is none. */
typedef struct sfi_limits {
    uint64_t wall_ns;
    uint64_t cpu_ns;
} sfi_limits;

/* What the domains of an owner did. */
typedef struct sfi_record {
    uint64_t faults;
    uint64_t outside;    /* of accesses outside their own window */
    uint64_t delayed_ns; /* penalties so far */
    int suspicious;      /* the last faults look like a search for other domains */
} sfi_record;

/* A function of the host: SFI_OK, or anything else for a failure. *result is 0 at first; an
 * integer and a floating-point result are both its bits. */
typedef sfi_status (*sfi_host_fn)(void *user, sfi_host_call *call, sfi_value *result);
/* The same with a declaration: one argument for each parameter. Buffers are the host's own
 * copies, aligned for every type, and valid while it runs. */
typedef sfi_status (*sfi_serve_fn)(void *user, sfi_host_call *call, const sfi_argument *arguments, sfi_value *result);
/* Decides whether a client may connect to an entry point (`domain.name`): not 0 is yes.
 * `permitted`: what the rules say. It may not use the world. */
typedef int (*sfi_permission_fn)(void *user, const char *client, const char *entry, int permitted);

/* The library's version, such as "0.1.0". */
SFI_API const char *sfi_version(void);

/* Errors. Text belongs to the error; it is NULL where there is none. No text holds an address:
 * in a world of anonymous domains they are secrets. Names come from hostile objects; they are
 * short and hold no control characters. */
SFI_API sfi_status sfi_error_code(const sfi_error *error);           /* SFI_INVALID for NULL */
SFI_API const char *sfi_error_message(const sfi_error *error);
SFI_API const char *sfi_error_domain(const sfi_error *error);        /* the domain that faulted */
SFI_API const char *sfi_error_function(const sfi_error *error);      /* the function that was running */
SFI_API uint64_t sfi_error_offset(const sfi_error *error);           /* from its start, bytes */
SFI_API const char *sfi_error_file(const sfi_error *error);          /* out of debug information */
SFI_API uint64_t sfi_error_line(const sfi_error *error);             /* 0: not known */
SFI_API int sfi_error_address_class(const sfi_error *error);         /* SFI_ADDRESS_... */
SFI_API const char *sfi_error_region(const sfi_error *error);        /* the shared region that was accessed */
SFI_API const char *sfi_error_backtrace(const sfi_error *error);     /* the calls in progress, a line each */
SFI_API void sfi_error_free(sfi_error *error);

/* What the host offers to the worlds that it opens. Free it when no world will be opened with it
 * any more; `user` pointers live as long as the worlds. */
SFI_API sfi_config *sfi_config_new(void);
SFI_API void sfi_config_free(sfi_config *config);
/* Offers a function to domains: in a manifest, imports.SYMBOL = { host = "NAME", signature =
 * "(int, int) -> int" }. While it runs it is not entered again. */
SFI_API sfi_status sfi_config_function(sfi_config *config, const char *name, sfi_host_fn function, void *user, sfi_error **error);
/* The same with a declaration such as "i32 put(in u8 data[count], u64 count)": buffers are
 * copied once before the host sees them, and back. A domain can make the host hold as much
 * memory as it has itself, once for each buffer. Imports of it need a signature: numbers and
 * buffers are `int`, or `float`. */
SFI_API sfi_status sfi_config_serve(sfi_config *config, const char *name, const char *declaration, sfi_serve_fn function, void *user, sfi_error **error);
/* A rule as [[permit]] in a manifest: who may connect to what. Names may end in `*`. */
SFI_API sfi_status sfi_config_permit(sfi_config *config, const char *client, const char *entry, sfi_error **error);
/* Lets domains read the processor's clock (rdtsc) whose manifest says `clock = true`. */
SFI_API sfi_status sfi_config_clock(sfi_config *config, sfi_error **error);
/* Has the last word about every connection. NULL: the rules have. */
SFI_API sfi_status sfi_config_permission(sfi_config *config, sfi_permission_fn function, void *user, sfi_error **error);
/* Limits of every call of the host, where they are not 0 (else the manifest's), and lets single
 * calls have their own. */
SFI_API sfi_status sfi_config_limits(sfi_config *config, sfi_limits limits, sfi_error **error);

/* Worlds: loads the domains of a manifest, verifies, links, places and seals them, and runs
 * their initialisers. Paths in it are relative to its directory. No [entry] is needed. `config`
 * may be NULL. */
SFI_API sfi_status sfi_world_open(const char *manifest, const sfi_config *config, sfi_world **world, sfi_error **error);
/* The same with the manifest's text; paths are relative to `directory`. */
SFI_API sfi_status sfi_world_open_text(const char *text, const char *directory, const sfi_config *config, sfi_world **world, sfi_error **error);
/* Runs the finalisers and frees the world, also if a finaliser fails; not if it is in use. Not
 * within a host function. */
SFI_API sfi_status sfi_world_close(sfi_world *world, sfi_error **error);

/* A domain is brought back to the state in which it was built: fresh data, the same place. Not
 * within a host function. */
SFI_API sfi_status sfi_world_restart(sfi_world *world, const char *domain, sfi_error **error);
/* A domain is loaded again, at a fresh place, from the manifest's files, which are read again,
 * or from one object. If that fails the old one stays. What was connected to it is connected
 * again by name; functions that were found find themselves again. Not within a host function. */
SFI_API sfi_status sfi_world_reload(sfi_world *world, const char *domain, sfi_error **error);
SFI_API sfi_status sfi_world_reload_object(sfi_world *world, const char *domain, const void *object, size_t size, sfi_error **error);
/* An import of a client leads to an entry point (`domain.name`), or nowhere. */
SFI_API sfi_status sfi_world_connect(sfi_world *world, const char *client, const char *symbol, const char *entry, sfi_error **error);
SFI_API sfi_status sfi_world_disconnect(sfi_world *world, const char *client, const char *symbol, sfi_error **error);
SFI_API sfi_status sfi_world_permit(sfi_world *world, const char *client, const char *entry, sfi_error **error);
/* A domain's budget: gives it all of it again; what it used, nanoseconds. Not within a host
 * function. */
SFI_API sfi_status sfi_world_refill(sfi_world *world, const char *domain, sfi_error **error);
SFI_API sfi_status sfi_world_used(sfi_world *world, const char *domain, uint64_t *wall_ns, uint64_t *cpu_ns, sfi_error **error);
/* Whether the domain is dead. *fault: its last fault, which the host frees, or NULL; also if
 * another domain's call met it. Not within a host function. */
SFI_API sfi_status sfi_world_state(sfi_world *world, const char *domain, int *dead, sfi_error **fault, sfi_error **error);
/* The record of the domain's owner; SFI_NOT_FOUND if it has none. Not within a host function. */
SFI_API sfi_status sfi_world_record(sfi_world *world, const char *domain, sfi_record *record, sfi_error **error);

/* A domain's memory, by pointers in its own terms: only what the domain itself may read or
 * write. Not within a host function: see sfi_host_read. */
SFI_API sfi_status sfi_world_symbol(sfi_world *world, const char *domain, const char *name, uint64_t *pointer, sfi_error **error);
SFI_API sfi_status sfi_world_read(sfi_world *world, const char *domain, uint64_t pointer, void *to, size_t size, sfi_error **error);
SFI_API sfi_status sfi_world_write(sfi_world *world, const char *domain, uint64_t pointer, const void *from, size_t size, sfi_error **error);

/* Shared regions: the host's access by offset (not within a host function), the address of one
 * that a domain sees (the same for all domains, as long as the world lives), and what it may do
 * with it. */
SFI_API sfi_status sfi_region_size(sfi_world *world, const char *region, size_t *size, sfi_error **error);
SFI_API sfi_status sfi_region_read(sfi_world *world, const char *region, size_t offset, void *to, size_t size, sfi_error **error);
SFI_API sfi_status sfi_region_write(sfi_world *world, const char *region, size_t offset, const void *from, size_t size, sfi_error **error);
SFI_API sfi_status sfi_region_in(sfi_world *world, const char *domain, const char *region, uint64_t *pointer, sfi_error **error);
SFI_API sfi_status sfi_region_show(sfi_world *world, const char *domain, const char *region, int writable, sfi_error **error);
SFI_API sfi_status sfi_region_hide(sfi_world *world, const char *domain, const char *region, sfi_error **error);

/* A global function of a domain with its signature: `int`, `ptr` (passed as it is), `float`
 * (float or double) and `fn(..) -> ..` (a pointer from sfi_world_lend, or 0), such as "(int,
 * float) -> float". What the signature says is between the host and the domain's author: a wrong
 * one gives wrong values, never more than the domain could do anyway. */
SFI_API sfi_status sfi_function_find(sfi_world *world, const char *domain, const char *name, const char *signature, sfi_function **function, sfi_error **error);
/* Calls it. `arguments` may be NULL if `count` is 0, `limits` NULL for the world's own, `result`
 * NULL. */
SFI_API sfi_status sfi_call(sfi_world *world, const sfi_function *function, const sfi_value *arguments, size_t count, const sfi_limits *limits, sfi_value *result, sfi_error **error);
SFI_API void sfi_function_free(sfi_function *function);

/* The same with a declaration, whose name is the function's: buffers are copied to the domain's
 * data stack, and back what it wrote. `size` is what the host's buffer has: SFI_ARGUMENTS if the
 * declaration asks for more. Buffers may overlap. If other threads write to them meanwhile, the
 * domain sees old or new elements, and lengths stay those that were checked. See `sfi bind
 * --emit c-host`. */
SFI_API sfi_status sfi_bound_find(sfi_world *world, const char *domain, const char *declaration, sfi_bound **bound, sfi_error **error);
SFI_API sfi_status sfi_bound_call(sfi_world *world, const sfi_bound *bound, const sfi_argument *arguments, size_t count, const sfi_limits *limits, sfi_value *result, sfi_error **error);
SFI_API void sfi_bound_free(sfi_bound *bound);

/* Lends a function of the host to a domain. *pointer: a function pointer in the domain's terms,
 * for arguments that the domain expects to be functions. The signature is that of the domain's
 * calls. It is good until it is taken back and until the domain begins anew; then calls through
 * it fail for the domain with __sfi_error 7. It uses one of the domain's gateways for functions
 * (`callbacks` in a manifest), which stays with `name` until the domain begins anew: SFI_BIND if
 * there is none left, or if a function of this name is lent. Not within a host function. */
SFI_API sfi_status sfi_world_lend(sfi_world *world, const char *domain, const char *name, const char *signature, sfi_host_fn function, void *user, uint64_t *pointer, sfi_error **error);
SFI_API sfi_status sfi_world_take_back(sfi_world *world, const char *domain, const char *name, sfi_error **error);

/* Within a host function: its caller, its arguments from 0 on, and its caller's memory. A
 * `sfi_host_call` is valid until the host function returns. */
SFI_API const char *sfi_host_caller(sfi_host_call *call);
SFI_API uint64_t sfi_host_argument(sfi_host_call *call, size_t index);
SFI_API double sfi_host_f64(sfi_host_call *call, size_t index);
SFI_API float sfi_host_f32(sfi_host_call *call, size_t index);
SFI_API sfi_status sfi_host_read(sfi_host_call *call, uint64_t pointer, void *to, size_t size, sfi_error **error);
SFI_API sfi_status sfi_host_write(sfi_host_call *call, uint64_t pointer, const void *from, size_t size, sfi_error **error);
/* A C string of the caller's, with its zero byte. SFI_BOUNDS if it has no end within `size`
 * bytes. */
SFI_API sfi_status sfi_host_read_string(sfi_host_call *call, uint64_t pointer, char *to, size_t size, sfi_error **error);
/* Calls a function of the caller's by a function pointer that it passed. Where its import
 * declares the argument as `fn`, in the manifest, the pointer is one of its functions or 0, and
 * other values never reach the host. */
SFI_API sfi_status sfi_host_callback(sfi_host_call *call, uint64_t pointer, const char *signature, const sfi_value *arguments, size_t count, sfi_value *result, sfi_error **error);

#ifdef __cplusplus
}
#endif

#endif /* SFI_H */
