/* The extension's own declarations. */
#ifndef PGSFI_H
#define PGSFI_H

#include "postgres.h"

#include <signal.h>

#include "fmgr.h"
#include "funcapi.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "sfi.h"

/* Nothing of this is for other modules, so calls and variables need no table of addresses. */
#pragma GCC visibility push(hidden)

/* As struct sfi_call in sfi_pg.h: the words after a call's arguments. */
typedef struct CallBlock {
    uint64 nulls;
    uint64 is_null;
    uint64 length;
    uint64 row;
    uint64 done;
    uint64 state;
    uint64 closed;
    uint64 rows;
    uint64 values;
} CallBlock;

/* As struct sfi_column in sfi_pg.h: a column of a row. */
typedef struct Column {
    sfi_value value;
    uint64 length;
    uint32 is_null;
    uint32 closed;
} Column;

typedef struct Counts {
    uint64 calls;
    uint64 asked;       /* calls of the server by the domain */
    uint64 shared;      /* calls that had no crossing of their own */
    uint64 nanoseconds; /* in calls while sfi.timing is on */
    uint64 faults;
} Counts;

/* The faults of a role's libraries in a database. */
typedef struct OwnerRecord {
    Oid database;
    Oid owner;
    uint64 faults;          /* until they are forgiven, or long ago */
    TimestampTz last;       /* the last fault */
    pg_atomic_uint64 until; /* the end of the penalty, 0 for none */
} OwnerRecord;

/* A library loaded for a role. It lives as long as the backend. */
typedef struct Instance {
    struct Instance *next;
    char *library;
    Oid role;
    Oid owner;    /* of the library */
    char *digest; /* hex */
    bool reads_only; /* the library promises it */
    bool in_place; /* its functions read arguments where the server has them */
    sfi_world *world;
    struct Entry *entries;
    bool loops; /* it has those of batch.c, which make its other calls slower */
    sfi_prepared *batches[4]; /* they */
    struct Answer *answer; /* to its last query in this transaction */
    OwnerRecord *record; /* of the owner; NULL if there was no place for one */
    Counts counts;
    Counts told; /* what other backends know of the counts */
} Instance;

/* A function of an instance. */
typedef struct Entry {
    struct Entry *next;
    char *symbol;
    char *signature;
    sfi_prepared *prepared;
} Entry;

/* The way in which a value crosses. */
typedef enum Kind {
    KIND_WORD,    /* a number by value */
    KIND_FLOAT4,
    KIND_FLOAT8,
    KIND_FIXED,   /* `size` bytes behind a pointer */
    KIND_BYTES,   /* pointer and length: bytea, and types of this language */
    KIND_TEXT,    /* pointer and length, in the server's encoding */
    KIND_CSTRING, /* the same, of a cstring */
    KIND_ARRAY,   /* pointer and number of elements of `size` bytes */
    KIND_POLYGON, /* pointer and number of points */
    KIND_PATH,    /* pointer, number of points, whether it is closed */
    KIND_PRINTED, /* as text, by the type's output and input functions */
    KIND_ROW,     /* pointer and number of columns */
    KIND_VOID
} Kind;

typedef struct Crossing {
    Kind kind;
    Oid type;       /* without domains over it */
    Oid domain;     /* the domain over the type of a result, or invalid */
    void *checks;   /* of the domain, in the context */
    MemoryContext context; /* lives as long as this */
    Oid element;    /* of an array */
    int16 size;     /* of the value or the element */
    bool by_value;
    char align;     /* of the element */
    bool nulls;     /* the array may have NULL elements */
    struct RowType *row; /* KIND_ROW */
    FmgrInfo print; /* KIND_PRINTED: the output function, for a result the input function */
    Oid parameter;  /* of the input function */
    int32 modifier; /* the length or precision, or -1 */
} Crossing;

enum { MAX_WORDS = 12 };

/* pgsfi.c */
extern int pgsfi_mode;
extern int pgsfi_memory;
extern int pgsfi_stack;
extern int pgsfi_time_limit;
extern bool pgsfi_timing;
extern int pgsfi_batch;
extern int pgsfi_penalty;
extern int pgsfi_penalty_limit;
extern char *pgsfi_directories;
extern char *pgsfi_command;
extern const char *pgsfi_mode_name(void);
/* Returns the crossings of calls. */
static inline uint64 pgsfi_crossings(const Counts *counts)
{
    return counts->calls - counts->shared + counts->asked;
}
/* Says whether no session compiles expressions. */
extern bool pgsfi_compiler_is_off(void);

/* library.c */
/* A library as the table has it. */
typedef struct Library {
    Oid owner;
    char *digest; /* hex */
    char *mode;
} Library;
/* Reads a library: its object is palloc'ed. Returns false if there is none. */
extern bool pgsfi_library_read(const char *name, Library *library, bytea **object);
/* Installs a file of sfi.directories if there is one of this name. */
extern bool pgsfi_library_from_file(const char *name);
extern void pgsfi_check_usage(void);

/* world.c */
/* The name of the domain in its world. */
#define LIBRARY_DOMAIN "library"
extern Instance *pgsfi_instance(const char *library);
extern Instance *pgsfi_instances(void);
extern sfi_prepared *pgsfi_entry(Instance *instance, const char *symbol, const char *signature);
extern const void *pgsfi_view(Instance *instance, sfi_prepared *prepared, uint64 pointer, Size size);
extern void pgsfi_raise(Instance *instance, sfi_status status, sfi_error *error) pg_attribute_noreturn();
extern void pgsfi_raise_room(Instance *instance, sfi_status status, sfi_error *error, Size size) pg_attribute_noreturn();

/* shared.c */
extern void pgsfi_shared_init(void);
/* Says whether the module is in shared_preload_libraries. */
extern bool pgsfi_is_shared(void);
extern OwnerRecord *pgsfi_owner_record(Oid owner);
/* Counts a fault, and begins a penalty. */
extern void pgsfi_fault(Instance *instance);
/* An ERROR if the libraries of the owner must not run now. */
extern void pgsfi_check_penalty(Instance *instance);
/* Tells the other backends of this one's calls. */
extern void pgsfi_tell(void);

/* images.c */
extern Size pgsfi_images_size(void);
extern void pgsfi_images_startup(LWLock *own);
extern void pgsfi_offer_images(sfi_config *config);

/* interrupt.c */
/* The function that calls. */
typedef struct Caller {
    Oid owner;   /* of the function */
    bool stable; /* it must not change the database */
} Caller;

/* The calls in progress. */
typedef struct Progress {
    bool ticking;
    volatile sig_atomic_t depth;
    volatile uint64 number; /* of the outermost one */
    volatile sig_atomic_t overtime;
    Instance *instance; /* of the innermost one */
    const Caller *caller; /* of the innermost one */
    bool batch; /* the innermost one is a call for many rows, which may not ask the server */
    bool asked; /* it did */
} Progress;
extern Progress pgsfi_progress;
/* Starts the timer of this transaction. */
extern void pgsfi_tick(void);

static inline void pgsfi_begin(void)
{
    if (unlikely(!pgsfi_progress.ticking)) pgsfi_tick();
    if (pgsfi_progress.depth == 0) {
        /* In this order: the last call may have become too long after its end. */
        pgsfi_progress.number++;
        pgsfi_progress.overtime = 0;
    }
    pgsfi_progress.depth++;
}

static inline void pgsfi_end(void)
{
    pgsfi_progress.depth--;
}

/* Raises the error of a call that was interrupted, if it was. */
extern void pgsfi_check_interrupted(void);

/* The call itself, with a clock around it. */
extern sfi_status pgsfi_timed_call(Instance *instance, sfi_prepared *prepared, const sfi_value *words, sfi_value *result, sfi_error **error);

/* Calls a prepared function for pgsfi_progress.caller. A fault is an ERROR. */
static inline sfi_value pgsfi_call(Instance *instance, sfi_prepared *prepared, const sfi_value *words)
{
    sfi_value result;
    sfi_error *error = NULL;
    sfi_status status;

    instance->counts.calls++;
    pgsfi_progress.instance = instance;
    if (unlikely(instance->record && pg_atomic_read_u64(&instance->record->until) != 0)) pgsfi_check_penalty(instance);
    pgsfi_begin();
    status = unlikely(pgsfi_timing) ? pgsfi_timed_call(instance, prepared, words, &result, &error)
                                    : sfi_prepared_call(instance->world, prepared, words, &result, &error);
    pgsfi_end();
    if (unlikely(status != SFI_OK)) pgsfi_raise(instance, status, error);
    return result;
}

/* Returns room for the arguments of the next call, where the callee reads them. As before
 * pgsfi_call, pgsfi_progress.caller is set. */
static inline void *pgsfi_room(Instance *instance, sfi_prepared *prepared, Size size)
{
    void *room;
    sfi_error *error = NULL;
    sfi_status status;

    /* A library that had a fault begins anew here, and runs its constructors. */
    pgsfi_progress.instance = instance;
    pgsfi_begin();
    status = sfi_prepared_room(instance->world, prepared, size, &room, &error);
    pgsfi_end();
    if (unlikely(status != SFI_OK)) pgsfi_raise_room(instance, status, error, size);
    return room;
}

/* host.c */
extern void pgsfi_offer(sfi_config *config);
extern const char *pgsfi_imports(void);
/* Keeps the error in progress, and orders the end of the call in progress. */
extern void pgsfi_keep_error(MemoryContext context);
/* Raises the error that ended a host function, if one did. */
extern void pgsfi_rethrow(void);

/* query.c */
extern void pgsfi_offer_queries(sfi_config *config);

/* values.c */
extern void pgsfi_describe(Oid type, int32 modifier, bool result, Crossing *crossing, MemoryContext context);
extern void pgsfi_describe_text(Crossing *crossing, bool result);
extern int pgsfi_words(Kind kind);
/* Appends the words of an argument to a signature. `words` counts those that are no floats. */
extern void pgsfi_signature(StringInfo to, Kind kind, int *words);
extern void pgsfi_signature_word(StringInfo to, bool pointer, int *words);
extern Size pgsfi_prepare_argument(const Crossing *crossing, Datum *value);
extern int pgsfi_put(const Crossing *crossing, Datum value, char **room, sfi_value *words);
/* A value in the memory of a domain: a result, or a column of one. */
typedef struct Found {
    Instance *instance;
    sfi_prepared *prepared;
    sfi_value word;
    uint64 length;
    bool closed;
} Found;
/* Makes the SQL value of a result that is not NULL. */
extern Datum pgsfi_take(Crossing *crossing, const Found *found);
/* An ERROR if the type does not permit NULL. */
extern void pgsfi_check_null(Crossing *crossing);

/* rows.c */
extern void pgsfi_describe_row(TupleDesc columns, bool result, Crossing *crossing, MemoryContext context);
extern TupleDesc pgsfi_row_columns(const Crossing *crossing);
extern Size pgsfi_prepare_row(const Crossing *crossing, Datum *value);
extern void pgsfi_put_row(const Crossing *crossing, Datum value, char **room, sfi_value *words);
/* Says whether the type of the row was altered since it was described. */
extern bool pgsfi_row_changed(const Crossing *crossing);
/* Returns the number of columns that cross. */
extern int pgsfi_row_width(const Crossing *crossing);
/* Copies columns from a domain. */
extern Column *pgsfi_copy_columns(const Found *found, uint64 count);
extern Datum pgsfi_take_column(Crossing *crossing, const Found *found, const Column *column, bool *null);
/* Makes the values of a row's columns, for the row's TupleDesc. */
extern void pgsfi_take_columns(const Crossing *crossing, const Found *found, const Column *columns, Datum *values, bool *nulls);
/* The same for columns in the domain. */
extern void pgsfi_take_one(const Crossing *crossing, const Found *found, Datum *values, bool *nulls);
extern Datum pgsfi_take_row(const Crossing *crossing, const Found *found);

/* batchplan.c */
extern void pgsfi_batch_init(void);

/* batchscan.c */
/* The name of the node in plans. */
#define BATCH_NODE "SfiBatch"
extern const struct CustomScanMethods pgsfi_batch_methods;

/* gist.c */
typedef enum Support { SUPPORT_NONE, SUPPORT_CONSISTENT, SUPPORT_UNION, SUPPORT_PENALTY, SUPPORT_PICKSPLIT, SUPPORT_SAME } Support;
/* A support function, as long as its FmgrInfo. */
typedef struct SupportCache {
    Support support;
    sfi_prepared *prepared;
    Size size; /* of a key */
    Crossing query;
} SupportCache;
extern Support pgsfi_support(Oid result, int count, const Oid *arguments);
/* pgsfi_progress.caller is set. */
extern Datum pgsfi_support_call(FunctionCallInfo fcinfo, SupportCache *cache, Instance *instance, const char *symbol,
                                const Oid *arguments);

#pragma GCC visibility pop

#endif
