/* Libraries in domains: one world for each library and role of this backend. */
#include "pgsfi.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* A number that no other file of a backend has as a rule. */
#define SAME_FILE 200

static Instance *instances;
static sfi_config *config;

Instance *pgsfi_instances(void)
{
    return instances;
}

/* Puts an object into a file of memory. */
static int memory_file(const char *bytes, Size length)
{
    int file = memfd_create("sfi-library", MFD_CLOEXEC), same;
    Size done = 0;

    if (file < 0) ereport(ERROR, (errmsg("could not create a file of memory: %m")));
    while (done < length) {
        ssize_t n = write(file, bytes + done, length - done);

        if (n <= 0) {
            close(file);
            ereport(ERROR, (errmsg("could not write a file of memory: %m")));
        }
        done += n;
    }
    /* The number is a part of the image's name, so all backends should have the same. */
    same = fcntl(file, F_DUPFD_CLOEXEC, SAME_FILE);
    if (same >= 0) {
        close(file);
        file = same;
    }
    return file;
}

/* Raises an error that is no fault of a call: its first line is the message, the rest is detail. */
static void raise_load(const char *library, sfi_error *error) pg_attribute_noreturn();
static void raise_load(const char *library, sfi_error *error)
{
    char *message = pstrdup(sfi_error_message(error));

    sfi_error_free(error);
    ereport(ERROR, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION), errmsg("library \"%s\" cannot be loaded", library),
                    errdetail("%s", message)));
}

/* Says whether a library promises to read its arguments only, with SFI_READS_IN_PLACE. */
static bool reads_in_place(sfi_world *world)
{
    sfi_prepared *promise;
    sfi_error *error;

    if (sfi_prepare(world, LIBRARY_DOMAIN, "sfi_reads_in_place", "() -> int", &promise, &error) == SFI_OK) {
        sfi_prepared_free(promise);
        return true;
    }
    sfi_error_free(error);
    return false;
}

/* Notes the owner of a library. Addresses of the server lead to all of its memory in mode write. So
 * only libraries of superusers get them. */
static void own(Instance *instance, Oid owner)
{
    instance->owner = owner;
    instance->record = pgsfi_owner_record(owner);
    instance->in_place = instance->reads_only && superuser_arg(owner);
}

Instance *pgsfi_instance(const char *name)
{
    Oid role = GetUserId();
    Library library;
    bytea *object;
    Instance *found;
    MemoryContext old;
    StringInfoData manifest;
    char share[MAXPGPATH];
    sfi_world *world;
    sfi_error *error;
    sfi_status status;
    bool loops = pgsfi_batch > 1;
    int file;

    if (!pgsfi_library_read(name, &library, NULL))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("there is no library \"%s\"", name),
                        errhint("Install one with sfi.install or sfi.install_file.")));
    if (strcmp(pgsfi_mode_name(), "full") == 0 && strcmp(library.mode, "full") != 0)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("library \"%s\" was rewritten for mode %s", name, library.mode),
                        errhint("Install it again, now that sfi.mode is full.")));
    for (found = instances; found; found = found->next)
        if (found->role == role && found->loops == loops && strcmp(found->digest, library.digest) == 0 && strcmp(found->library, name) == 0) {
            /* The same bytes may belong to another role by now. */
            own(found, library.owner);
            return found;
        }

    if (!pgsfi_library_read(name, &library, &object)) elog(ERROR, "the library is gone");
    if (!config) {
        config = sfi_config_new();
        pgsfi_offer(config);
    }
    get_share_path(my_exec_path, share);
    file = memory_file(VARDATA_ANY(object), VARSIZE_ANY_EXHDR(object));
    initStringInfo(&manifest);
    appendStringInfo(&manifest,
                     "[domains." LIBRARY_DOMAIN "]\nobjects = [\"/proc/self/fd/%d\"%s]\n"
                     "archives = [\"%s/extension/sfi-runtime.%s.a\"]\nmode = \"%s\"\n%s"
                     "memory = \"%d KiB\"\nstack = \"%d KiB\"\nrestart = \"always\"\n[domains." LIBRARY_DOMAIN
                     ".imports]\n%s",
                     file, loops ? psprintf(", \"%s/extension/sfi-batch.%s.o\"", share, library.mode) : "", share, library.mode,
                     library.mode, loops ? "pointers = [\"*\"]\n" : "", pgsfi_memory, pgsfi_stack, pgsfi_imports());
    pgsfi_progress.instance = NULL;
    pgsfi_begin();
    status = sfi_world_open_text(manifest.data, "/", config, &world, &error);
    pgsfi_end();
    close(file);
    if (status != SFI_OK) {
        pgsfi_check_interrupted();
        raise_load(name, error);
    }
    old = MemoryContextSwitchTo(TopMemoryContext);
    found = palloc0(sizeof *found);
    found->library = pstrdup(name);
    found->digest = pstrdup(library.digest);
    found->role = role;
    found->loops = loops;
    found->world = world;
    found->reads_only = strcmp(library.mode, "write") == 0 && reads_in_place(world);
    own(found, library.owner);
    found->next = instances;
    instances = found;
    MemoryContextSwitchTo(old);
    return found;
}

sfi_prepared *pgsfi_entry(Instance *instance, const char *symbol, const char *signature)
{
    Entry *entry;
    sfi_prepared *prepared;
    sfi_error *error;
    MemoryContext old;

    for (entry = instance->entries; entry; entry = entry->next)
        if (strcmp(entry->symbol, symbol) == 0 && strcmp(entry->signature, signature) == 0) return entry->prepared;
    if (sfi_prepare(instance->world, LIBRARY_DOMAIN, symbol, signature, &prepared, &error) != SFI_OK) {
        char *message = pstrdup(sfi_error_message(error));

        sfi_error_free(error);
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("library \"%s\" has no function \"%s\"", instance->library, symbol),
                        errdetail("%s", message)));
    }
    old = MemoryContextSwitchTo(TopMemoryContext);
    entry = palloc0(sizeof *entry);
    entry->symbol = pstrdup(symbol);
    entry->signature = pstrdup(signature);
    entry->prepared = prepared;
    entry->next = instance->entries;
    instance->entries = entry;
    MemoryContextSwitchTo(old);
    return prepared;
}

void pgsfi_raise(Instance *instance, sfi_status status, sfi_error *error)
{
    char *message = pstrdup(sfi_error_message(error)), *trace = NULL;
    StringInfoData place;

    initStringInfo(&place);
    if (sfi_error_function(error)) {
        appendStringInfo(&place, "function %s", sfi_error_function(error));
        if (sfi_error_file(error))
            appendStringInfo(&place, " at %s:%lu", sfi_error_file(error), (unsigned long) sfi_error_line(error));
        appendStringInfo(&place, " of library \"%s\"", instance->library);
    }
    if (sfi_error_backtrace(error)) trace = pstrdup(sfi_error_backtrace(error));
    sfi_error_free(error);
    /* A host function failed, or a signal came. */
    pgsfi_rethrow();
    if (status == SFI_TIME) pgsfi_check_interrupted();
    if (status == SFI_DEAD) {
        /* Its constructors failed, or were ended, when it began anew. */
        sfi_error *again = NULL;
        sfi_status begun;

        pgsfi_begin();
        begun = sfi_world_restart(instance->world, LIBRARY_DOMAIN, &again);
        pgsfi_end();
        sfi_error_free(again);
        pgsfi_rethrow();
        if (begun == SFI_TIME) pgsfi_check_interrupted();
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("library \"%s\" had not begun anew after an earlier error", instance->library),
                        begun == SFI_OK ? errhint("It has now. Try again.") : 0));
    }
    pgsfi_fault(instance);
    ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION), errmsg("%s", message),
                    trace ? errdetail_internal("%s", trace) : 0,
                    place.len ? errcontext("%s", place.data) : 0));
}

sfi_status pgsfi_timed_call(Instance *instance, sfi_prepared *prepared, const sfi_value *words, sfi_value *result, sfi_error **error)
{
    instr_time start, end;
    sfi_status status;

    INSTR_TIME_SET_CURRENT(start);
    status = sfi_prepared_call(instance->world, prepared, words, result, error);
    INSTR_TIME_SET_CURRENT(end);
    INSTR_TIME_SUBTRACT(end, start);
    instance->counts.nanoseconds += (uint64) end.tv_sec * UINT64CONST(1000000000) + end.tv_nsec;
    return status;
}

void pgsfi_raise_room(Instance *instance, sfi_status status, sfi_error *error, Size size)
{
    if (status == SFI_ARGUMENTS) {
        sfi_error_free(error);
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("arguments of %zu bytes do not fit the stack of library \"%s\"", size, instance->library),
                        errhint("Raise sfi.stack.")));
    }
    pgsfi_raise(instance, status, error);
}

const void *pgsfi_view(Instance *instance, sfi_prepared *prepared, uint64 pointer, Size size)
{
    const void *memory;
    sfi_error *error = NULL;
    sfi_status status = sfi_prepared_view(instance->world, prepared, pointer, size, &memory, &error);

    if (unlikely(status != SFI_OK)) {
        sfi_error_free(error);
        ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
                        errmsg("the result of a function of library \"%s\" is not in its memory", instance->library)));
    }
    return memory;
}

PG_FUNCTION_INFO_V1(sfi_pg_stats);
Datum sfi_pg_stats(PG_FUNCTION_ARGS)
{
    ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;

    InitMaterializedSRF(fcinfo, 0);
    for (Instance *i = instances; i; i = i->next) {
        /* Version 1.0 of the extension has the first five. */
        Datum values[7] = {CStringGetTextDatum(i->library), ObjectIdGetDatum(i->role), CStringGetTextDatum(i->digest),
                           Int64GetDatum(i->counts.calls), Int64GetDatum(i->counts.faults),
                           Int64GetDatum(pgsfi_crossings(&i->counts)), Int64GetDatum(i->counts.nanoseconds)};
        bool nulls[7] = {false};

        tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
    }
    return (Datum) 0;
}
