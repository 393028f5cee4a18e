/* The validator and the call handler. */
#include "function.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* Splits `library:symbol`. The symbol is the function's name if there is none. */
static void split(const char *source, const char *name, char **library, char **symbol)
{
    char *copy = pstrdup(source), *end, *colon;

    while (*copy == ' ' || *copy == '\n' || *copy == '\t') copy++;
    for (end = copy + strlen(copy); end > copy && (end[-1] == ' ' || end[-1] == '\n' || end[-1] == '\t');) *--end = 0;
    colon = strrchr(copy, ':');
    if (colon) *colon = 0;
    *library = copy;
    *symbol = colon ? colon + 1 : pstrdup(name);
}

/* Says whether quick_call takes arguments that cross in this way. */
static bool is_quick(Kind kind)
{
    return kind <= KIND_TEXT || kind == KIND_POLYGON;
}

/* Describes the result. The columns of RETURNS TABLE, or of OUT parameters, are a row. */
static void describe_result(Oid oid, Oid type, Crossing *result, MemoryContext context)
{
    TupleDesc columns;

    if (type != RECORDOID) {
        pgsfi_describe(type, -1, true, result, context);
        return;
    }
    if (get_func_result_type(oid, NULL, &columns) != TYPEFUNC_COMPOSITE)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("a function in LANGUAGE sfi cannot return records without columns"),
                        errhint("Declare RETURNS TABLE (...), OUT parameters, or a composite type.")));
    pgsfi_describe_row(columns, true, result, context);
}

/* Refuses input and output functions where the server may compile expressions. */
static void check_compiler(const Function *function)
{
    bool io = function->result.kind == KIND_CSTRING;

    for (int i = 0; i < function->count; i++) io = io || function->arguments[i] == CSTRINGOID;
    if (io && !pgsfi_compiler_is_off())
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("input and output functions in LANGUAGE sfi need a server with jit = off, and sfi in shared_preload_libraries"),
                        errdetail("PostgreSQL's compiler of expressions calls such functions in C only, and ends the server otherwise."),
                        errhint("Set both in postgresql.conf, and restart the server.")));
}

static void describe(Oid oid, Function *function, MemoryContext context, bool validate)
{
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
    Form_pg_proc form;
    StringInfoData signature;
    char *library, *symbol, *source;
    bool null;
    int words = 0;
    MemoryContext old = MemoryContextSwitchTo(context);

    if (!HeapTupleIsValid(tuple)) elog(ERROR, "cache lookup failed for function %u", oid);
    form = (Form_pg_proc) GETSTRUCT(tuple);
    source = TextDatumGetCString(SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &null));
    split(source, NameStr(form->proname), &library, &symbol);
    function->count = form->pronargs;
    function->strict = form->proisstrict;
    function->set = form->proretset;
    function->caller = (Caller) {form->proowner, form->provolatile != PROVOLATILE_VOLATILE};
    function->symbol = symbol;
    memcpy(function->arguments, form->proargtypes.values, form->pronargs * sizeof(Oid));
    function->support.support = pgsfi_support(form->prorettype, form->pronargs, function->arguments);
    if (form->prokind != PROKIND_FUNCTION || form->prorettype == TRIGGEROID || form->prorettype == EVENT_TRIGGEROID)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("LANGUAGE sfi has no procedures, window functions and triggers")));
    if (function->support.support != SUPPORT_NONE) function->caller.stable = true;
    if (function->support.support == SUPPORT_NONE) {
        bool quick = true;
        int integers = 0;

        initStringInfo(&signature);
        appendStringInfoChar(&signature, '(');
        for (int i = 0; i < function->count; i++) {
            Crossing *crossing = &function->crossings[i];

            pgsfi_describe(function->arguments[i], -1, false, crossing, context);
            crossing->nulls = !function->strict;
            function->rows = function->rows || crossing->kind == KIND_ROW;
            if (i < MAX_WORDS) function->quick_arguments[i] = (QuickArgument) {crossing->kind, words, crossing->size};
            words += pgsfi_words(crossing->kind);
            pgsfi_signature(&signature, crossing->kind, &integers);
            quick = quick && is_quick(crossing->kind);
        }
        describe_result(oid, form->prorettype, &function->result, context);
        function->rows = function->rows || function->result.kind == KIND_ROW;
        function->block = !function->strict || function->set || function->result.kind > KIND_FIXED;
        if (function->result.kind == KIND_VOID) function->block = !function->strict;
        function->quick = quick && !function->block && !OidIsValid(function->result.domain);
        function->quick_result = function->result.type;
        if (function->block) {
            words++;
            pgsfi_signature_word(&signature, true, &integers);
        }
        if (words > MAX_WORDS)
            ereport(ERROR, (errcode(ERRCODE_TOO_MANY_ARGUMENTS), errmsg("a function in LANGUAGE sfi has at most %d C arguments", MAX_WORDS),
                            errdetail("This one has %d.", words)));
        if (words > 0) {
            signature.len -= 2;
            signature.data[signature.len] = 0;
        }
        appendStringInfoChar(&signature, ')');
        if (function->result.kind == KIND_FLOAT4 || function->result.kind == KIND_FLOAT8)
            appendStringInfoString(&signature, " -> float");
        else if (function->result.kind == KIND_WORD)
            appendStringInfoString(&signature, " -> int");
        else
            appendStringInfoString(&signature, function->result.kind == KIND_VOID ? " -> void" : " -> ptr");
    }
    ReleaseSysCache(tuple);
    check_compiler(function);
    if (validate) {
        Library known;

        if (!pgsfi_library_read(library, &known, NULL)) (void) pgsfi_library_from_file(library);
    }
    function->role = GetUserId();
    function->instance = pgsfi_instance(library);
    if (function->support.support == SUPPORT_NONE)
        function->prepared = pgsfi_entry(function->instance, symbol, signature.data);
    MemoryContextSwitchTo(old);
}

PG_FUNCTION_INFO_V1(sfi_pg_validator);
Datum sfi_pg_validator(PG_FUNCTION_ARGS)
{
    Oid oid = PG_GETARG_OID(0);
    Function *function;

    if (!CheckFunctionValidatorAccess(fcinfo->flinfo->fn_oid, oid)) PG_RETURN_VOID();
    if (!check_function_bodies) PG_RETURN_VOID();
    function = palloc0(sizeof *function);
    describe(oid, function, CurrentMemoryContext, true);
    PG_RETURN_VOID();
}

/* Says whether the type of a row was altered, in the middle of a query. */
static bool has_changed(const Function *function)
{
    bool changed = function->result.kind == KIND_ROW && pgsfi_row_changed(&function->result);

    for (int i = 0; i < function->count && !changed; i++)
        changed = function->crossings[i].kind == KIND_ROW && pgsfi_row_changed(&function->crossings[i]);
    return changed;
}

static inline Function *lookup(FmgrInfo *info)
{
    Function *function = info->fn_extra;

    if (likely(function && function->role == GetUserId() && !(function->rows && has_changed(function)))) return function;
    function = MemoryContextAllocZero(info->fn_mcxt, sizeof *function);
    describe(info->fn_oid, function, info->fn_mcxt, false);
    info->fn_extra = function;
    return function;
}

Function *pgsfi_function(FmgrInfo *info)
{
    return lookup(info);
}

/* The arguments of a call, detoasted once. */
typedef struct Ready {
    Datum values[FUNC_MAX_ARGS];
    Size size;
    uint64 nulls;
} Ready;

static void prepare(Function *function, FunctionCallInfo fcinfo, Ready *ready)
{
    ready->size = function->block ? TYPEALIGN(16, sizeof(CallBlock)) : 0;
    ready->nulls = 0;
    for (int i = 0; i < function->count; i++) {
        if (fcinfo->args[i].isnull) {
            ready->nulls |= UINT64CONST(1) << (i & 63);
            continue;
        }
        ready->values[i] = fcinfo->args[i].value;
        ready->size += pgsfi_prepare_argument(&function->crossings[i], &ready->values[i]);
    }
}

/* Calls, with the block's words in and out. */
static sfi_value cross(Function *function, FunctionCallInfo fcinfo, Ready *ready, CallBlock *block)
{
    sfi_value words[MAX_WORDS], result;
    int count = 0;
    CallBlock *shared = NULL;

    pgsfi_progress.caller = &function->caller;
    if (ready->size > 0) {
        char *room = pgsfi_room(function->instance, function->prepared, ready->size);

        if (function->block) {
            shared = (CallBlock *) room;
            *shared = *block;
            room += TYPEALIGN(16, sizeof(CallBlock));
        }
        for (int i = 0; i < function->count; i++) {
            if (fcinfo->args[i].isnull) {
                for (int n = pgsfi_words(function->crossings[i].kind); n > 0; n--) words[count++] = sfi_u(0);
                continue;
            }
            count += pgsfi_put(&function->crossings[i], ready->values[i], &room, words + count);
        }
        if (shared) words[count++] = sfi_u((uintptr_t) shared);
    } else {
        for (int i = 0; i < function->count; i++)
            count += pgsfi_put(&function->crossings[i], ready->values[i], NULL, words + count);
    }
    result = pgsfi_call(function->instance, function->prepared, words);
    if (shared) memcpy(block, pgsfi_view(function->instance, function->prepared, (uintptr_t) shared, sizeof *block), sizeof *block);
    return result;
}

static Datum call_once(Function *function, FunctionCallInfo fcinfo)
{
    Ready ready;
    CallBlock block = {0};
    sfi_value result;
    Found found;

    prepare(function, fcinfo, &ready);
    block.nulls = ready.nulls;
    result = cross(function, fcinfo, &ready, &block);
    if (block.is_null) {
        pgsfi_check_null(&function->result);
        fcinfo->isnull = true;
        return (Datum) 0;
    }
    found = (Found) {function->instance, function->prepared, result, block.length, block.closed != 0};
    return pgsfi_take(&function->result, &found);
}

/* Puts a row into a set. `columns`: NULL if the row is not a pointer to its columns. */
static void put_row(Function *function, ReturnSetInfo *set, const Found *found, const Column *columns, bool null)
{
    Crossing *result = &function->result;

    if (result->kind == KIND_ROW) {
        int count = pgsfi_row_columns(result)->natts;
        Datum *values = palloc0(count * sizeof(Datum) + 1);
        bool *nulls = palloc(count * sizeof(bool) + 1);

        memset(nulls, true, count * sizeof(bool));
        if (columns) pgsfi_take_columns(result, found, columns, values, nulls);
        else if (!null) pgsfi_take_one(result, found, values, nulls);
        tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
    } else {
        Datum value = (Datum) 0;

        if (columns) value = pgsfi_take_column(result, found, columns, &null);
        else if (null) pgsfi_check_null(result);
        else value = pgsfi_take(result, found);
        tuplestore_putvalues(set->setResult, set->setDesc, &value, &null);
    }
}

/* Puts the rows of a call that returned many. */
static void put_rows(Function *function, ReturnSetInfo *set, const Found *found, uint64 count, MemoryContext rows)
{
    int width = function->result.kind == KIND_ROW ? pgsfi_row_width(&function->result) : 1;
    MemoryContext each;
    Column *columns;

    if (count > MaxAllocSize)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("a result of a function in LANGUAGE sfi is too large")));
    columns = pgsfi_copy_columns(found, count * width);
    each = AllocSetContextCreate(rows, "row of a function in LANGUAGE sfi", ALLOCSET_DEFAULT_SIZES);
    MemoryContextSwitchTo(each);
    for (uint64 i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        put_row(function, set, found, columns + i * width, false);
        MemoryContextReset(each);
    }
    MemoryContextSwitchTo(rows);
    MemoryContextDelete(each);
}

/* A function of a set is called for one row after the other, or for as many as it gives at once. */
static Datum call_set(Function *function, FunctionCallInfo fcinfo)
{
    ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
    MemoryContext rows, old;
    Ready ready;
    CallBlock block = {0};

    InitMaterializedSRF(fcinfo, function->result.kind == KIND_ROW ? 0 : MAT_SRF_USE_EXPECTED_DESC | MAT_SRF_BLESS);
    rows = AllocSetContextCreate(CurrentMemoryContext, "rows of a function in LANGUAGE sfi", ALLOCSET_DEFAULT_SIZES);
    prepare(function, fcinfo, &ready);
    old = MemoryContextSwitchTo(rows);
    for (uint64 row = 0; !block.done; row += block.rows ? block.rows : 1) {
        sfi_value result;
        Found found;

        CHECK_FOR_INTERRUPTS();
        block = (CallBlock) {.nulls = ready.nulls, .row = row, .state = block.state};
        result = cross(function, fcinfo, &ready, &block);
        if (block.rows > 0) {
            found = (Found) {function->instance, function->prepared, sfi_u(block.values), 0, false};
            put_rows(function, set, &found, block.rows, rows);
        } else if (!block.done) {
            found = (Found) {function->instance, function->prepared, result, block.length, block.closed != 0};
            put_row(function, set, &found, NULL, block.is_null != 0);
        }
        MemoryContextReset(rows);
    }
    MemoryContextSwitchTo(old);
    MemoryContextDelete(rows);
    fcinfo->isnull = true;
    return (Datum) 0;
}

/* Calls a function whose arguments are numbers and a few bytes: most calls. Its way of an argument
 * is that of put_quick, which made a call 10 ns longer here. */
static Datum quick_call(Function *function, FunctionCallInfo fcinfo)
{
    Instance *instance = function->instance;
    sfi_value words[MAX_WORDS], result;
    Piece pieces[MAX_WORDS], *end = pieces;
    Size size = 0;
    int count = function->count;

    pgsfi_progress.caller = &function->caller;
    for (int i = 0; i < count; i++) {
        QuickArgument argument = function->quick_arguments[i];
        Datum value = fcinfo->args[i].value;
        sfi_value *word = &words[argument.word];

        if (unlikely(fcinfo->args[i].isnull)) elog(ERROR, "a STRICT function got NULL");
        if (argument.kind == KIND_WORD || argument.kind == KIND_FLOAT8) {
            *word = sfi_u(value);
            continue;
        }
        if (argument.kind == KIND_FLOAT4) {
            *word = sfi_f32(DatumGetFloat4(value));
            continue;
        }
        if (argument.kind == KIND_FIXED) {
            end->bytes = DatumGetPointer(value);
            end->length = argument.size;
        } else if (argument.kind == KIND_POLYGON) {
            Size points;

            end->bytes = points_of(plain(value), &points);
            end->length = points * sizeof(Point);
            word[1] = sfi_u(points);
        } else {
            struct varlena *bytes = plain(value);

            end->bytes = VARDATA_ANY(bytes);
            end->length = VARSIZE_ANY_EXHDR(bytes);
            word[1] = sfi_u(end->length);
        }
        if (stays(instance, argument.kind, end->bytes)) {
            *word = sfi_u((uintptr_t) end->bytes);
        } else {
            end->word = word;
            size += piece_room(end++);
        }
    }
    if (end > pieces) {
        char *room = pgsfi_room(instance, function->prepared, size);

        for (const Piece *piece = pieces; piece < end; piece++) room = put_piece(piece, room);
    }
    result = pgsfi_call(instance, function->prepared, words);
    return take_quick(function, result);
}

PG_FUNCTION_INFO_V1(sfi_pg_call_handler);
Datum sfi_pg_call_handler(PG_FUNCTION_ARGS)
{
    Function *function = lookup(fcinfo->flinfo);

    if (likely(function->quick)) return quick_call(function, fcinfo);
    pgsfi_progress.caller = &function->caller;
    if (function->support.support != SUPPORT_NONE)
        return pgsfi_support_call(fcinfo, &function->support, function->instance, function->symbol, function->arguments);
    if (function->set) return call_set(function, fcinfo);
    return call_once(function, fcinfo);
}
