/* What all backends know: counts, and the penalties of roles whose libraries fault. With the module
 * in shared_preload_libraries they lie in shared memory. Otherwise each backend has its own. */
#include "pgsfi.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* Numbers of records. What does not fit is not counted. */
#define MOST_TALLIES 1024
#define MOST_OWNERS 256

/* The counts of a library for a role, over all backends. */
typedef struct Tally {
    Oid database;
    Oid role;
    char library[NAMEDATALEN];
    Counts counts;
} Tally;

typedef struct Shared {
    int tallies;
    int owners;
    uint64 dropped; /* counts that found no place */
    Tally tally[MOST_TALLIES];
    OwnerRecord owner[MOST_OWNERS];
} Shared;

static Shared *shared;
/* NULL if no other backend uses the records. */
static LWLock *lock;
static shmem_request_hook_type previous_request;
static shmem_startup_hook_type previous_startup;

static void take(LWLockMode mode)
{
    if (lock) LWLockAcquire(lock, mode);
}

static void give(void)
{
    if (lock) LWLockRelease(lock);
}

static void request(void)
{
    if (previous_request) previous_request();
    RequestAddinShmemSpace(MAXALIGN(sizeof(Shared)));
    RequestAddinShmemSpace(pgsfi_images_size());
    RequestNamedLWLockTranche("sfi", 2);
}

static void startup(void)
{
    bool found;

    if (previous_startup) previous_startup();
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    shared = ShmemInitStruct("sfi", sizeof(Shared), &found);
    if (!found) memset(shared, 0, sizeof(Shared));
    pgsfi_images_startup(&GetNamedLWLockTranche("sfi")[1].lock);
    LWLockRelease(AddinShmemInitLock);
    lock = &GetNamedLWLockTranche("sfi")[0].lock;
}

void pgsfi_shared_init(void)
{
    if (!process_shared_preload_libraries_in_progress) return;
    previous_request = shmem_request_hook;
    shmem_request_hook = request;
    previous_startup = shmem_startup_hook;
    shmem_startup_hook = startup;
}

bool pgsfi_is_shared(void)
{
    return lock != NULL;
}

static Shared *records(void)
{
    if (!shared) shared = MemoryContextAllocZero(TopMemoryContext, sizeof(Shared));
    return shared;
}

/* Returns the record of an owner in this database. The lock is held. NULL if there is no place. */
static OwnerRecord *owner_record(Oid owner)
{
    Shared *all = records();

    for (int i = 0; i < all->owners; i++)
        if (all->owner[i].owner == owner && all->owner[i].database == MyDatabaseId) return &all->owner[i];
    if (all->owners == MOST_OWNERS) return NULL;
    all->owner[all->owners].owner = owner;
    all->owner[all->owners].database = MyDatabaseId;
    pg_atomic_init_u64(&all->owner[all->owners].until, 0);
    return &all->owner[all->owners++];
}

OwnerRecord *pgsfi_owner_record(Oid owner)
{
    OwnerRecord *found;

    take(LW_EXCLUSIVE);
    found = owner_record(owner);
    give();
    return found;
}

void pgsfi_fault(Instance *instance)
{
    OwnerRecord *record = instance->record;
    TimestampTz now;
    int64 wait;

    instance->counts.faults++;
    if (!record) return;
    now = GetCurrentTimestamp();
    take(LW_EXCLUSIVE);
    if (TimestampDifferenceExceeds(record->last, now, pgsfi_penalty_limit)) record->faults = 0;
    record->faults++;
    record->last = now;
    if (pgsfi_penalty > 0) {
        /* Twice as long for each further fault. */
        wait = record->faults > 31 ? pgsfi_penalty_limit : (int64) pgsfi_penalty << (record->faults - 1);
        pg_atomic_write_u64(&record->until, TimestampTzPlusMilliseconds(now, Min(wait, pgsfi_penalty_limit)));
    }
    give();
}

void pgsfi_check_penalty(Instance *instance)
{
    uint64 until = pg_atomic_read_u64(&instance->record->until);
    long wait = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

    if (until == 0) return;
    if (wait <= 0) {
        /* Unless another backend has set it anew. */
        pg_atomic_compare_exchange_u64(&instance->record->until, &until, 0);
        return;
    }
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("library \"%s\" does not run now", instance->library),
                    errdetail("Functions of libraries of role \"%s\" had faults.", GetUserNameFromId(instance->owner, true)),
                    errhint("Try again in %ld seconds, or let a superuser call sfi.forgive.", (wait + 999) / 1000)));
}

/* Adds what an instance counted since it was here. */
static void add(Shared *all, Instance *instance)
{
    Counts *now = &instance->counts, *told = &instance->told;
    Tally *tally = NULL;

    for (int i = 0; i < all->tallies && !tally; i++)
        if (all->tally[i].database == MyDatabaseId && all->tally[i].role == instance->role &&
            strncmp(all->tally[i].library, instance->library, NAMEDATALEN - 1) == 0)
            tally = &all->tally[i];
    if (!tally && all->tallies < MOST_TALLIES) {
        tally = &all->tally[all->tallies++];
        tally->database = MyDatabaseId;
        tally->role = instance->role;
        strlcpy(tally->library, instance->library, NAMEDATALEN);
    }
    if (tally) {
        tally->counts.calls += now->calls - told->calls;
        tally->counts.asked += now->asked - told->asked;
        tally->counts.shared += now->shared - told->shared;
        tally->counts.nanoseconds += now->nanoseconds - told->nanoseconds;
        tally->counts.faults += now->faults - told->faults;
    } else {
        all->dropped++;
    }
    *told = *now;
}

/* At the end of each transaction. */
void pgsfi_tell(void)
{
    if (!lock) return;
    take(LW_EXCLUSIVE);
    for (Instance *i = pgsfi_instances(); i; i = i->next)
        if (i->counts.calls != i->told.calls) add(shared, i);
    give();
}

PG_FUNCTION_INFO_V1(sfi_pg_all_stats);
Datum sfi_pg_all_stats(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;

    InitMaterializedSRF(fcinfo, 0);
    if (!lock)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("backends share no statistics"),
                        errhint("Put sfi into shared_preload_libraries and restart the server.")));
    pgsfi_tell();
    take(LW_SHARED);
    for (int i = 0; i < shared->tallies; i++) {
        const Tally *tally = &shared->tally[i];
        const Counts *counts = &tally->counts;
        Datum values[6] = {CStringGetTextDatum(tally->library), ObjectIdGetDatum(tally->role), Int64GetDatum(counts->calls),
                           Int64GetDatum(pgsfi_crossings(counts)), Int64GetDatum(counts->nanoseconds),
                           Int64GetDatum(counts->faults)};
        bool nulls[6] = {false};

        if (tally->database == MyDatabaseId) tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
    }
    give();
    return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sfi_pg_penalties);
Datum sfi_pg_penalties(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
    Shared *all = records();

    InitMaterializedSRF(fcinfo, 0);
    take(LW_SHARED);
    for (int i = 0; i < all->owners; i++) {
        OwnerRecord *record = &all->owner[i];
        uint64 until = pg_atomic_read_u64(&record->until);
        Datum values[4] = {ObjectIdGetDatum(record->owner), Int64GetDatum(record->faults), TimestampTzGetDatum(record->last),
                           TimestampTzGetDatum(until)};
        bool nulls[4] = {false, false, false, until == 0};

        if (record->database == MyDatabaseId && record->faults > 0)
            tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
    }
    give();
    return (Datum) 0;
}

PG_FUNCTION_INFO_V1(sfi_pg_forgive);
Datum sfi_pg_forgive(PG_FUNCTION_ARGS)
{
    OwnerRecord *record = pgsfi_owner_record(PG_GETARG_OID(0));

    if (record) {
        take(LW_EXCLUSIVE);
        record->faults = 0;
        pg_atomic_write_u64(&record->until, 0);
        give();
    }
    PG_RETURN_VOID();
}
