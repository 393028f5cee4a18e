/* Images of libraries that backends pass to each other, so that a library is verified and linked by
 * one backend, and its text lies in memory once. With the module in shared_preload_libraries.
 *
 * An image is a sealed memory file, which some backends hold open. Shared memory has their process
 * numbers and descriptors, and others open it through /proc. Each role has images of its own. */
#include "pgsfi.h"

#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

enum { MOST_IMAGES = 256, MOST_HOLDERS = 4, NAME_SIZE = 32 };

typedef struct Holder {
    int pid; /* 0 for none */
    int file;
} Holder;

typedef struct Kept {
    Oid database;
    Oid role;
    unsigned char name[NAME_SIZE];
    Holder holders[MOST_HOLDERS];
    uint64 taken; /* by other backends */
} Kept;

typedef struct Images {
    int count;
    Kept kept[MOST_IMAGES];
} Images;

static Images *images;
static LWLock *lock;

Size pgsfi_images_size(void)
{
    return MAXALIGN(sizeof(Images));
}

void pgsfi_images_startup(LWLock *own)
{
    bool found;

    images = ShmemInitStruct("sfi images", sizeof(Images), &found);
    if (!found) memset(images, 0, sizeof(Images));
    lock = own;
}

/* Returns the record of an image. The lock is held. */
static Kept *look(const unsigned char *name)
{
    for (int i = 0; i < images->count; i++)
        if (images->kept[i].database == MyDatabaseId && images->kept[i].role == GetUserId() &&
            memcmp(images->kept[i].name, name, NAME_SIZE) == 0)
            return &images->kept[i];
    return NULL;
}

static Holder *place(Kept *kept)
{
    for (int i = 0; i < MOST_HOLDERS; i++)
        if (kept->holders[i].pid == 0) return &kept->holders[i];
    return NULL;
}

static bool is_held(const Kept *kept)
{
    for (int i = 0; i < MOST_HOLDERS; i++)
        if (kept->holders[i].pid != 0) return true;
    return false;
}

/* The end of a backend closes its files. */
static void at_exit(int code, Datum unused)
{
    LWLockAcquire(lock, LW_EXCLUSIVE);
    for (int i = 0; i < images->count; i++)
        for (int n = 0; n < MOST_HOLDERS; n++)
            if (images->kept[i].holders[n].pid == MyProcPid) images->kept[i].holders[n].pid = 0;
    LWLockRelease(lock);
}

/* Makes this backend a holder of an image, until it ends. Closes the file if there is no place. */
static void hold(const unsigned char *name, int file)
{
    static bool registered;
    Kept *kept;
    Holder *holder;

    LWLockAcquire(lock, LW_EXCLUSIVE);
    kept = look(name);
    /* An image that nobody holds any more is gone. */
    for (int i = 0; i < images->count && !kept; i++)
        if (!is_held(&images->kept[i])) kept = &images->kept[i];
    if (!kept && images->count < MOST_IMAGES) kept = &images->kept[images->count++];
    holder = kept ? place(kept) : NULL;
    if (holder) {
        if (!is_held(kept)) {
            memset(kept, 0, sizeof *kept);
            kept->database = MyDatabaseId;
            kept->role = GetUserId();
            memcpy(kept->name, name, NAME_SIZE);
        }
        *holder = (Holder) {MyProcPid, file};
    }
    LWLockRelease(lock);
    if (!holder) {
        close(file);
        return;
    }
    if (!registered) before_shmem_exit(at_exit, 0);
    registered = true;
}

static int find(void *user, const unsigned char *name)
{
    Holder holders[MOST_HOLDERS];
    Kept *kept;
    int file = -1, own;

    LWLockAcquire(lock, LW_SHARED);
    kept = look(name);
    if (kept) memcpy(holders, kept->holders, sizeof holders);
    LWLockRelease(lock);
    for (int i = 0; kept && i < MOST_HOLDERS && file < 0; i++) {
        char path[64];

        if (holders[i].pid == 0) continue;
        snprintf(path, sizeof path, "/proc/%d/fd/%d", holders[i].pid, holders[i].file);
        file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    }
    if (file < 0) return -1;
    LWLockAcquire(lock, LW_EXCLUSIVE);
    kept = look(name);
    if (kept) kept->taken++;
    LWLockRelease(lock);
    own = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (own >= 0) hold(name, own);
    return file;
}

static void keep(void *user, const unsigned char *name, int file)
{
    hold(name, file);
}

void pgsfi_offer_images(sfi_config *config)
{
    if (images) sfi_config_images(config, find, keep, NULL, NULL);
}

PG_FUNCTION_INFO_V1(sfi_pg_images);
Datum sfi_pg_images(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;

    InitMaterializedSRF(fcinfo, 0);
    if (!images) return (Datum) 0;
    LWLockAcquire(lock, LW_SHARED);
    for (int i = 0; i < images->count; i++) {
        const Kept *kept = &images->kept[i];
        int holders = 0;
        Datum values[3];
        bool nulls[3] = {false};

        for (int n = 0; n < MOST_HOLDERS; n++) holders += kept->holders[n].pid != 0;
        values[0] = ObjectIdGetDatum(kept->role);
        values[1] = Int32GetDatum(holders);
        values[2] = Int64GetDatum(kept->taken);
        if (kept->database == MyDatabaseId && holders > 0) tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
    }
    LWLockRelease(lock);
    return (Datum) 0;
}
