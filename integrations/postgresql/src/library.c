/* Libraries: rewritten objects in the table sfi.library. */
#include "pgsfi.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/proclang.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

/* Columns of sfi.library. */
enum { COLUMN_NAME = 1, COLUMN_OWNER, COLUMN_MODE, COLUMN_DIGEST, COLUMN_OBJECT };

/* Bounds for the rewriter, which reads hostile bytes: address space, seconds, bytes of a file. */
#define REWRITER_MEMORY ((rlim_t) 4 << 30)
#define REWRITER_SECONDS 120
#define REWRITER_FILE ((rlim_t) 512 << 20)
/* Bytes of its report that are shown. */
#define REPORT 4000

void pgsfi_check_usage(void)
{
    Oid language = get_language_oid("sfi", false);

    if (pg_language_aclcheck(language, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
        aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_LANGUAGE, "sfi");
}

/* Opens the table of libraries. Before version 1.4 it was in the schema sfi. */
static Relation open_table(void)
{
    Oid table = RangeVarGetRelid(makeRangeVar("$sfi", "library", -1), AccessShareLock, true);

    if (!OidIsValid(table)) table = RangeVarGetRelid(makeRangeVar("sfi", "library", -1), AccessShareLock, false);
    return table_open(table, NoLock);
}

bool pgsfi_library_read(const char *name, Library *library, bytea **object)
{
    Relation relation = open_table();
    ScanKeyData key;
    SysScanDesc scan;
    HeapTuple tuple;
    bool found;

    ScanKeyInit(&key, COLUMN_NAME, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(name));
    key.sk_collation = DEFAULT_COLLATION_OID;
    scan = systable_beginscan(relation, RelationGetPrimaryKeyIndex(relation), true, NULL, 1, &key);
    tuple = systable_getnext(scan);
    found = HeapTupleIsValid(tuple);
    if (found) {
        TupleDesc columns = RelationGetDescr(relation);
        bool null;

        library->owner = DatumGetObjectId(heap_getattr(tuple, COLUMN_OWNER, columns, &null));
        library->mode = TextDatumGetCString(heap_getattr(tuple, COLUMN_MODE, columns, &null));
        {
            bytea *bytes = DatumGetByteaPP(heap_getattr(tuple, COLUMN_DIGEST, columns, &null));
            int length = VARSIZE_ANY_EXHDR(bytes);

            library->digest = palloc(2 * length + 1);
            hex_encode(VARDATA_ANY(bytes), length, library->digest);
            library->digest[2 * length] = 0;
        }
        if (object) *object = DatumGetByteaPCopy(heap_getattr(tuple, COLUMN_OBJECT, columns, &null));
    }
    systable_endscan(scan);
    table_close(relation, NoLock);
    return found;
}

static void write_file(const char *path, const char *bytes, Size length)
{
    int file = OpenTransientFile(path, O_WRONLY | O_CREAT | O_EXCL | PG_BINARY);
    Size done = 0;

    if (file < 0) ereport(ERROR, (errcode_for_file_access(), errmsg("could not create file \"%s\": %m", path)));
    while (done < length) {
        ssize_t n = write(file, bytes + done, length - done);

        if (n <= 0) ereport(ERROR, (errcode_for_file_access(), errmsg("could not write file \"%s\": %m", path)));
        done += n;
    }
    CloseTransientFile(file);
}

/* Reads a regular file into a bytea. Returns NULL if there is none. */
static bytea *read_file(const char *path, Size limit)
{
    int file = OpenTransientFile(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | PG_BINARY);
    struct stat status;
    bytea *bytes;
    Size done = 0;

    if (file < 0) return NULL;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        CloseTransientFile(file);
        return NULL;
    }
    if ((Size) status.st_size > limit)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("file \"%s\" is too large", path)));
    bytes = palloc(VARHDRSZ + status.st_size);
    while (done < (Size) status.st_size) {
        ssize_t n = read(file, VARDATA(bytes) + done, status.st_size - done);

        if (n < 0) ereport(ERROR, (errcode_for_file_access(), errmsg("could not read file \"%s\": %m", path)));
        if (n == 0) break;
        done += n;
    }
    SET_VARSIZE(bytes, VARHDRSZ + done);
    CloseTransientFile(file);
    return bytes;
}

/* The first lines of the rewriter's report. */
static char *report(const char *path)
{
    bytea *bytes = read_file(path, MaxAllocSize / 2);
    Size length = bytes ? VARSIZE_ANY_EXHDR(bytes) : 0;
    char *text;

    if (length > REPORT) length = REPORT;
    text = palloc(length + 1);
    if (length > 0) memcpy(text, VARDATA_ANY(bytes), length);
    text[length] = 0;
    for (Size i = 0; i < length; i++)
        if ((unsigned char) text[i] >= 0x80 || ((unsigned char) text[i] < ' ' && text[i] != '\n')) text[i] = '?';
    return text;
}

static int run(const char *folder)
{
    pid_t child = fork();
    int status;

    if (child < 0) ereport(ERROR, (errmsg("could not fork: %m")));
    if (child == 0) {
        struct rlimit memory = {REWRITER_MEMORY, REWRITER_MEMORY}, seconds = {REWRITER_SECONDS, REWRITER_SECONDS};
        struct rlimit size = {REWRITER_FILE, REWRITER_FILE};
        const char *arguments[] = {"sfi", "rewrite", "--mode", pgsfi_mode_name(), "-o", "rewritten", "object", NULL};
        char *environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};
        int from = open("/dev/null", O_RDONLY), to = -1;
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (chdir(folder) == 0) to = open("messages", O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (to < 0 || from < 0 || dup2(from, 0) < 0 || dup2(to, 1) < 0 || dup2(to, 2) < 0) _exit(127);
        for (int file = 3; file < 1024; file++) close(file);
        setrlimit(RLIMIT_AS, &memory);
        setrlimit(RLIMIT_CPU, &seconds);
        setrlimit(RLIMIT_FSIZE, &size);
        execve(pgsfi_command, (char **) arguments, environment);
        dprintf(2, "cannot run %s: %s\n", pgsfi_command, strerror(errno));
        _exit(127);
    }
    PG_TRY();
    {
        while (waitpid(child, &status, WNOHANG) == 0) {
            CHECK_FOR_INTERRUPTS();
            pg_usleep(2000);
        }
    }
    PG_CATCH();
    {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        PG_RE_THROW();
    }
    PG_END_TRY();
    return status;
}

/* Rewrites an object. Errors show the codes of the refusals. */
static bytea *rewrite(const char *name, const char *bytes, Size length)
{
    char folder[MAXPGPATH] = "/tmp/sfi-XXXXXX";
    char input[MAXPGPATH], output[MAXPGPATH], messages[MAXPGPATH];
    bytea *result = NULL;
    char *said = NULL;
    int status = 0;

    if (!mkdtemp(folder)) ereport(ERROR, (errcode_for_file_access(), errmsg("could not create a folder in /tmp: %m")));
    snprintf(input, sizeof input, "%s/object", folder);
    snprintf(output, sizeof output, "%s/rewritten", folder);
    snprintf(messages, sizeof messages, "%s/messages", folder);
    PG_TRY();
    {
        write_file(input, bytes, length);
        status = run(folder);
        said = report(messages);
        if (status == 0) result = read_file(output, MaxAllocSize - VARHDRSZ);
    }
    PG_FINALLY();
    {
        unlink(input);
        unlink(output);
        unlink(messages);
        rmdir(folder);
    }
    PG_END_TRY();
    if (!result) {
        char *help = strstr(said, "= help: "), *end = help ? strchr(help, '\n') : NULL;

        if (end) help = pnstrdup(help + 8, end - help - 8);
        else help = NULL;
        ereport(ERROR, (errcode(ERRCODE_INVALID_OBJECT_DEFINITION), errmsg("library \"%s\" cannot be rewritten", name),
                        *said ? errdetail("%s", said) : 0, help ? errhint("%s", help) : 0));
    }
    return result;
}

/* Runs a statement about the table of libraries as its owner. Its %s is the table. Nothing of the
 * user's search_path takes part. Returns the number of rows. */
static uint64 run_as_owner(const char *format, int count, Oid *types, Datum *values)
{
    Relation relation = open_table();
    char *statement = psprintf(format, quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)), "library"));
    Oid user;
    int security, level = NewGUCNestLevel();
    uint64 rows;

    table_close(relation, NoLock);
    GetUserIdAndSecContext(&user, &security);
    SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, security | SECURITY_LOCAL_USERID_CHANGE);
    (void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                             false);
    SPI_connect();
    if (SPI_execute_with_args(statement, count, types, values, NULL, false, 0) < 0)
        elog(ERROR, "could not change sfi.library");
    rows = SPI_processed;
    SPI_finish();
    AtEOXact_GUC(true, level);
    SetUserIdAndSecContext(user, security);
    return rows;
}

/* Stores a rewritten object. The caller has checked that the user may install libraries. */
static char *store(const char *name, bytea *object)
{
    uint8 digest[PG_SHA256_DIGEST_LENGTH];
    char *hex = palloc(2 * sizeof digest + 1);
    pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);
    bytea *bytes = palloc(VARHDRSZ + sizeof digest);
    Oid types[] = {TEXTOID, OIDOID, TEXTOID, BYTEAOID, BYTEAOID};
    Datum values[5];

    if (!context || pg_cryptohash_init(context) < 0 ||
        pg_cryptohash_update(context, (uint8 *) VARDATA_ANY(object), VARSIZE_ANY_EXHDR(object)) < 0 ||
        pg_cryptohash_final(context, digest, sizeof digest) < 0)
        elog(ERROR, "could not compute a digest");
    pg_cryptohash_free(context);
    SET_VARSIZE(bytes, VARHDRSZ + sizeof digest);
    memcpy(VARDATA(bytes), digest, sizeof digest);
    hex_encode((char *) digest, sizeof digest, hex);
    hex[2 * sizeof digest] = 0;
    values[0] = CStringGetTextDatum(name);
    values[1] = ObjectIdGetDatum(GetUserId());
    values[2] = CStringGetTextDatum(pgsfi_mode_name());
    values[3] = PointerGetDatum(bytes);
    values[4] = PointerGetDatum(object);

    if (run_as_owner("INSERT INTO %s AS old (name, owner, mode, digest, object) "
                     "VALUES ($1, $2::regrole, $3, $4, $5) "
                     "ON CONFLICT (name) DO UPDATE SET mode = $3, digest = $4, object = $5, installed = now() "
                     "WHERE pg_has_role($2, old.owner::oid, 'USAGE')",
                     5, types, values) != 1)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("library \"%s\" belongs to another role", name)));
    return hex;
}

static void check_name(const char *name)
{
    Size length = strlen(name);

    if (length == 0 || length > 200 || strchr(name, ':') || strstr(name, ".."))
        ereport(ERROR, (errcode(ERRCODE_INVALID_NAME), errmsg("\"%s\" is no name of a library", name)));
}

bool pgsfi_library_from_file(const char *name)
{
    char *folders = pstrdup(pgsfi_directories ? pgsfi_directories : ""), *rest = folders, *folder;

    check_name(name);
    while ((folder = strsep(&rest, ":")) != NULL) {
        char *path = psprintf("%s/%s", folder, name);
        bytea *bytes = *folder == '/' ? read_file(path, MaxAllocSize / 2) : NULL;

        if (bytes) {
            store(name, rewrite(name, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)));
            CommandCounterIncrement();
            return true;
        }
    }
    return false;
}

PG_FUNCTION_INFO_V1(sfi_pg_install);
Datum sfi_pg_install(PG_FUNCTION_ARGS)
{
    char *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
    bytea *bytes = PG_GETARG_BYTEA_PP(1);

    pgsfi_check_usage();
    check_name(name);
    PG_RETURN_TEXT_P(cstring_to_text(store(name, rewrite(name, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)))));
}

PG_FUNCTION_INFO_V1(sfi_pg_install_file);
Datum sfi_pg_install_file(PG_FUNCTION_ARGS)
{
    char *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
    Library library;

    pgsfi_check_usage();
    if (!pgsfi_library_from_file(name))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FILE), errmsg("no folder of sfi.directories has a file \"%s\"", name)));
    if (!pgsfi_library_read(name, &library, NULL)) elog(ERROR, "the library is gone");
    PG_RETURN_TEXT_P(cstring_to_text(library.digest));
}

PG_FUNCTION_INFO_V1(sfi_pg_remove);
Datum sfi_pg_remove(PG_FUNCTION_ARGS)
{
    Oid types[] = {TEXTOID, OIDOID};
    Datum values[] = {PG_GETARG_DATUM(0), ObjectIdGetDatum(GetUserId())};

    pgsfi_check_usage();
    PG_RETURN_BOOL(run_as_owner("DELETE FROM %s WHERE name = $1 AND pg_has_role($2, owner::oid, 'USAGE')", 2,
                                types, values) == 1);
}
