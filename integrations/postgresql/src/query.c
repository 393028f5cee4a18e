/* SQL from domains: the host functions sfi_query and sfi_cell.
 *
 * A query runs as the role that calls the function, as in every other language. The owner of the
 * library needs the right to make queries, from sfi.grant. The right `spi` reads only: the whole
 * transaction counts as read-only meanwhile, also for functions that the query calls, and settings
 * that it changes are put back. */
#include "pgsfi.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* Bytes of a statement with its parameters, and bytes, rows and values of an answer. */
#define MOST_ASKED ((uint64) 1 << 20)
#define MOST_ANSWERED ((Size) 16 << 20)
#define MOST_ROWS 100000
#define MOST_VALUES ((uint64) 1 << 20)
#define MOST_PARAMETERS 32

/* Results of sfi_cell that are no length. */
enum { CELL_NULL = -1, CELL_NONE = -2 };

/* Columns of sfi.rights. */
enum { COLUMN_ROLE = 1, COLUMN_NAME };

/* The answer of an instance's last query, in memory of its own. */
struct Answer {
    MemoryContext memory;
    uint64 rows;
    int columns;
    char **cells; /* row by row, NULL for NULL */
};

/* A statement as the domain passed it, copied once. */
typedef struct Statement {
    char *text;
    int count;
    Oid types[MOST_PARAMETERS];
    Datum values[MOST_PARAMETERS];
    char nulls[MOST_PARAMETERS];
} Statement;

static bool installed;

static void forget(Instance *instance)
{
    if (instance->answer) MemoryContextDelete(instance->answer->memory);
    instance->answer = NULL;
}

static void at_end(XactEvent event, void *unused)
{
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PARALLEL_COMMIT ||
        event == XACT_EVENT_PARALLEL_ABORT || event == XACT_EVENT_PREPARE)
        for (Instance *i = pgsfi_instances(); i; i = i->next) forget(i);
}

/* Says whether a role has a right. */
static bool has_right(Oid role, const char *name)
{
    Oid table = RangeVarGetRelid(makeRangeVar("sfi", "rights", -1), AccessShareLock, true);
    Relation relation;
    ScanKeyData keys[2];
    SysScanDesc scan;
    bool found;

    /* Version 1.1 of the extension has no such table. */
    if (!OidIsValid(table)) return false;
    relation = table_open(table, NoLock);
    ScanKeyInit(&keys[0], COLUMN_ROLE, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(role));
    ScanKeyInit(&keys[1], COLUMN_NAME, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(name));
    keys[1].sk_collation = DEFAULT_COLLATION_OID;
    scan = systable_beginscan(relation, RelationGetPrimaryKeyIndex(relation), true, NULL, 2, keys);
    found = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    table_close(relation, NoLock);
    return found;
}

/* Copies a text of the domain. It is valid in the server's encoding. */
static char *copy_text(sfi_host_call *call, uint64 pointer, uint64 length, uint64 *left)
{
    char *text;

    if (length > *left)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("a query of a function in LANGUAGE sfi is too long")));
    *left -= length;
    text = palloc(length + 1);
    if (sfi_host_read(call, pointer, text, length, NULL) != SFI_OK)
        ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION), errmsg("a query of a function in LANGUAGE sfi is not in its memory")));
    text[length] = 0;
    pg_verifymbstr(text, length, false);
    return text;
}

static Statement *copy_statement(sfi_host_call *call)
{
    Statement *statement = palloc0(sizeof *statement);
    uint64 left = MOST_ASKED, count = sfi_host_argument(call, 3);
    uint64 parts[MOST_PARAMETERS][2];

    if (count > MOST_PARAMETERS)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("a query of a function in LANGUAGE sfi has at most %d parameters", MOST_PARAMETERS)));
    if (count > 0 && sfi_host_read(call, sfi_host_argument(call, 2), parts, count * sizeof parts[0], NULL) != SFI_OK)
        ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION), errmsg("a query of a function in LANGUAGE sfi is not in its memory")));
    statement->text = copy_text(call, sfi_host_argument(call, 0), sfi_host_argument(call, 1), &left);
    statement->count = count;
    for (uint64 i = 0; i < count; i++) {
        statement->types[i] = TEXTOID;
        statement->nulls[i] = parts[i][0] ? ' ' : 'n';
        if (parts[i][0]) statement->values[i] = CStringGetTextDatum(copy_text(call, parts[i][0], parts[i][1], &left));
    }
    return statement;
}

/* Keeps the rows of the query that has just run, as text. */
static void keep_rows(Instance *instance)
{
    TupleDesc columns = SPI_tuptable ? SPI_tuptable->tupdesc : NULL;
    MemoryContext memory = AllocSetContextCreate(TopMemoryContext, "answer to a function in LANGUAGE sfi", ALLOCSET_DEFAULT_SIZES), old;
    struct Answer *answer;
    Size size = 0;

    old = MemoryContextSwitchTo(memory);
    answer = palloc0(sizeof *answer);
    answer->memory = memory;
    answer->rows = SPI_processed;
    MemoryContextSwitchTo(old);
    forget(instance);
    instance->answer = answer;
    if (!columns) return;
    if (answer->rows * columns->natts > MOST_VALUES)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("the answer to a query of a function in LANGUAGE sfi is too large")));
    answer->columns = columns->natts;
    answer->cells = MemoryContextAllocHuge(memory, Max(1, answer->rows * answer->columns) * sizeof(char *));
    memset(answer->cells, 0, answer->rows * answer->columns * sizeof(char *));
    for (uint64 row = 0; row < answer->rows; row++)
        for (int column = 0; column < answer->columns; column++) {
            char *text = SPI_getvalue(SPI_tuptable->vals[row], columns, column + 1);

            if (!text) continue;
            size += strlen(text) + 1;
            if (size > MOST_ANSWERED)
                ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("the answer to a query of a function in LANGUAGE sfi is too large")));
            answer->cells[row * answer->columns + column] = MemoryContextStrdup(memory, text);
            pfree(text);
        }
}

static void run(Instance *instance, Statement *statement, bool writes)
{
    bool read_only = XactReadOnly;
    int level = NewGUCNestLevel(), code;

    SPI_connect();
    PG_TRY();
    {
        if (!writes) XactReadOnly = true;
        code = SPI_execute_with_args(statement->text, statement->count, statement->types, statement->values,
                                     statement->nulls, !writes, MOST_ROWS + 1);
        if (code < 0)
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("a function in LANGUAGE sfi cannot run this statement"),
                            errdetail("%s", SPI_result_code_string(code))));
        if (SPI_tuptable && SPI_processed > MOST_ROWS)
            ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("the answer to a query of a function in LANGUAGE sfi is too large")));
        keep_rows(instance);
    }
    PG_FINALLY();
    {
        XactReadOnly = read_only;
    }
    PG_END_TRY();
    SPI_finish();
    /* Not as at a commit: settings go back. */
    AtEOXact_GUC(writes, level);
}

/* Says whether a library may make queries with this right, for the function that calls it. Others
 * can make functions of the library too. They would get the right of its owner. */
static bool may(const Instance *instance, const Caller *caller, const char *right)
{
    return has_right(instance->owner, right) &&
           (has_privs_of_role(caller->owner, instance->owner) || has_right(caller->owner, right));
}

static sfi_status query(void *user, sfi_host_call *call, sfi_value *result)
{
    MemoryContext context = CurrentMemoryContext;
    volatile MemoryContext memory = NULL;
    Progress outer = pgsfi_progress;
    Instance *instance = pgsfi_progress.instance;
    volatile sfi_status status = SFI_OK;

    *result = sfi_u(0);
    if (!instance)
        return SFI_HOST;
    instance->counts.asked++;
    if (pgsfi_progress.batch) {
        pgsfi_progress.asked = true;
        *result = sfi_i(-1);
        return SFI_OK;
    }
    PG_TRY();
    {
        bool writes;

        memory = AllocSetContextCreate(context, "query of a function in LANGUAGE sfi", ALLOCSET_SMALL_SIZES);
        if (!installed) {
            RegisterXactCallback(at_end, NULL);
            installed = true;
        }
        MemoryContextSwitchTo(memory);
        writes = may(instance, outer.caller, "spi write");
        if (!writes && !may(instance, outer.caller, "spi"))
            ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                            errmsg("library \"%s\" may not make queries", instance->library),
                            errhint("A superuser can permit it: SELECT sfi.grant('%s', 'spi').",
                                    GetUserNameFromId(has_right(instance->owner, "spi") ? outer.caller->owner : instance->owner, false))));
        run(instance, copy_statement(call), writes && !outer.caller->stable);
        *result = sfi_u(instance->answer->rows);
    }
    PG_CATCH();
    {
        pgsfi_keep_error(context);
        status = SFI_HOST;
    }
    PG_END_TRY();
    /* Functions that the query called were in progress meanwhile. */
    pgsfi_progress.instance = instance;
    pgsfi_progress.caller = outer.caller;
    MemoryContextSwitchTo(context);
    if (memory) MemoryContextDelete(memory);
    return status;
}

static sfi_status cell(void *user, sfi_host_call *call, sfi_value *result)
{
    Instance *instance = pgsfi_progress.instance;
    struct Answer *answer = instance ? instance->answer : NULL;
    uint64 row = sfi_host_argument(call, 0), column = sfi_host_argument(call, 1), room = sfi_host_argument(call, 3);
    const char *text;
    Size length;

    if (instance) instance->counts.asked++;
    *result = sfi_i(CELL_NONE);
    if (pgsfi_progress.batch) pgsfi_progress.asked = true;
    if (pgsfi_progress.batch || !answer || row >= answer->rows || column >= (uint64) answer->columns) return SFI_OK;
    text = answer->cells[row * answer->columns + column];
    *result = sfi_i(CELL_NULL);
    if (!text) return SFI_OK;
    length = strlen(text);
    *result = sfi_u(length);
    if (room > 0 && length > 0) return sfi_host_write(call, sfi_host_argument(call, 2), text, Min(room, length), NULL);
    return SFI_OK;
}

void pgsfi_offer_queries(sfi_config *config)
{
    sfi_config_function(config, "sfi_query", query, NULL, NULL);
    sfi_config_function(config, "sfi_cell", cell, NULL, NULL);
}
