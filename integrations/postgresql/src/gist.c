/* Support functions of GiST operator classes over a type of fixed size. The server's structures
 * stay with the server: a domain gets copies of the keys, and its answers are checked.
 *
 *     consistent  (internal, T or other, int2, oid, internal) -> bool
 *                 int f(const T *key, QUERY, int strategy, struct sfi_gist *more)
 *     union       (internal, internal) -> T           void f(const T *keys, size_t count, T *to)
 *     penalty     (internal, internal, internal) -> internal
 *                 double f(const T *key, const T *added)
 *     picksplit   (internal, internal) -> internal
 *                 void f(const T *keys, size_t count, unsigned char *is_right, T *left, T *right)
 *     same        (T, T, internal) -> internal        int f(const T *a, const T *b)
 */
#include "pgsfi.h"

#include <float.h>
#include <math.h>

#include "access/amapi.h"
#include "access/gist.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

Support pgsfi_support(Oid result, int count, const Oid *arguments)
{
    bool first = count > 0 && arguments[0] == INTERNALOID, second = count > 1 && arguments[1] == INTERNALOID;

    if (result == BOOLOID && count == 5 && first && !second && arguments[2] == INT2OID && arguments[3] == OIDOID &&
        arguments[4] == INTERNALOID)
        return SUPPORT_CONSISTENT;
    if (count == 2 && first && second) return result == INTERNALOID ? SUPPORT_PICKSPLIT : SUPPORT_UNION;
    if (result == INTERNALOID && count == 3 && first && second && arguments[2] == INTERNALOID) return SUPPORT_PENALTY;
    if (result == INTERNALOID && count == 3 && !first && arguments[0] == arguments[1] && arguments[2] == INTERNALOID)
        return SUPPORT_SAME;
    return SUPPORT_NONE;
}

/* As struct sfi_gist in sfi_pg.h. */
typedef struct More {
    uint64 leaf;
    uint64 recheck;
} More;

/* The size of the key of an index entry: that of the first column whose operator class has this
 * support function. Only types of fixed size by reference. */
static Size key_size(Relation index, Oid function)
{
    int procedures = index->rd_indam->amsupport;

    for (int column = 0; column < IndexRelationGetNumberOfKeyAttributes(index); column++)
        for (int i = 0; i < procedures; i++)
            if (index->rd_support[column * procedures + i] == function) {
                Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(index), column);

                if (attribute->attlen <= 0 || attribute->attbyval) break;
                return attribute->attlen;
            }
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the key of a GiST operator class in LANGUAGE sfi must have a fixed size and be passed by reference")));
}

static Size type_size(Oid type)
{
    int16 size = get_typlen(type);

    if (size <= 0 || get_typbyval(type))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("the key of a GiST operator class in LANGUAGE sfi must have a fixed size and be passed by reference")));
    return size;
}

static void *copy_out(Instance *instance, sfi_prepared *prepared, const char *at, Size size)
{
    void *copy = palloc(size);

    memcpy(copy, pgsfi_view(instance, prepared, (uintptr_t) at, size), size);
    return copy;
}

/* Fills the cache of a support function. */
static void fill(FunctionCallInfo fcinfo, SupportCache *cache, Instance *instance, const char *symbol,
                 const Oid *arguments)
{
    Oid function = fcinfo->flinfo->fn_oid;
    StringInfoData signature;
    int words = 1;

    initStringInfo(&signature);
    switch (cache->support) {
    case SUPPORT_CONSISTENT:
        pgsfi_describe(arguments[1], -1, false, &cache->query, fcinfo->flinfo->fn_mcxt);
        appendStringInfoString(&signature, "(ptr, ");
        pgsfi_signature(&signature, cache->query.kind, &words);
        appendStringInfoString(&signature, "int, ptr) -> int");
        cache->size = key_size(((GISTENTRY *) PG_GETARG_POINTER(0))->rel, function);
        break;
    case SUPPORT_UNION:
        appendStringInfoString(&signature, "(ptr, int, ptr) -> void");
        cache->size = type_size(get_func_rettype(function));
        break;
    case SUPPORT_PENALTY:
        appendStringInfoString(&signature, "(ptr, ptr) -> float");
        cache->size = key_size(((GISTENTRY *) PG_GETARG_POINTER(0))->rel, function);
        break;
    case SUPPORT_PICKSPLIT:
        appendStringInfoString(&signature, "(ptr, int, ptr, ptr, ptr) -> void");
        cache->size = key_size(((GistEntryVector *) PG_GETARG_POINTER(0))->vector[FirstOffsetNumber].rel, function);
        break;
    default:
        appendStringInfoString(&signature, "(ptr, ptr) -> int");
        cache->size = type_size(arguments[0]);
        break;
    }
    cache->prepared = pgsfi_entry(instance, symbol, signature.data);
}

static bool consistent(FunctionCallInfo fcinfo, const SupportCache *cache, Instance *instance)
{
    GISTENTRY *entry = (GISTENTRY *) PG_GETARG_POINTER(0);
    Datum value = PG_GETARG_DATUM(1);
    sfi_prepared *prepared = cache->prepared;
    Size need = pgsfi_prepare_argument(&cache->query, &value);
    char *room = pgsfi_room(instance, prepared, sizeof(More) + TYPEALIGN(16, cache->size) + need);
    More *more = (More *) room;
    sfi_value words[8], result;
    int count;

    more->leaf = GistPageIsLeaf(entry->page);
    more->recheck = 1;
    room += sizeof(More);
    memcpy(room, DatumGetPointer(entry->key), cache->size);
    words[0] = sfi_u((uintptr_t) room);
    room += TYPEALIGN(16, cache->size);
    count = 1 + pgsfi_put(&cache->query, value, &room, words + 1);
    words[count++] = sfi_u(PG_GETARG_UINT16(2));
    words[count++] = sfi_u((uintptr_t) more);
    result = pgsfi_call(instance, prepared, words);
    *(bool *) PG_GETARG_POINTER(4) = ((const More *) pgsfi_view(instance, prepared, (uintptr_t) more, sizeof *more))->recheck != 0;
    return (uint32) result.u != 0;
}

static Datum unite(FunctionCallInfo fcinfo, const SupportCache *cache, Instance *instance)
{
    GistEntryVector *entries = (GistEntryVector *) PG_GETARG_POINTER(0);
    sfi_prepared *prepared = cache->prepared;
    Size size = cache->size, part = TYPEALIGN(16, size);
    char *room = pgsfi_room(instance, prepared, part + (Size) entries->n * size), *key = room + part;
    sfi_value words[] = {sfi_u((uintptr_t) key), sfi_u(entries->n), sfi_u((uintptr_t) room)};

    memset(room, 0, size);
    for (int i = 0; i < entries->n; i++, key += size) memcpy(key, DatumGetPointer(entries->vector[i].key), size);
    pgsfi_call(instance, prepared, words);
    if (PG_GETARG_POINTER(1)) *(int *) PG_GETARG_POINTER(1) = size;
    return PointerGetDatum(copy_out(instance, prepared, room, size));
}

static Datum penalty(FunctionCallInfo fcinfo, const SupportCache *cache, Instance *instance)
{
    GISTENTRY *entry = (GISTENTRY *) PG_GETARG_POINTER(0), *added = (GISTENTRY *) PG_GETARG_POINTER(1);
    float *to = (float *) PG_GETARG_POINTER(2);
    Size size = cache->size, part = TYPEALIGN(16, size);
    sfi_prepared *prepared = cache->prepared;
    char *room = pgsfi_room(instance, prepared, 2 * part);
    sfi_value words[] = {sfi_u((uintptr_t) room), sfi_u((uintptr_t) room + part)};
    double found;

    memcpy(room, DatumGetPointer(entry->key), size);
    memcpy(room + part, DatumGetPointer(added->key), size);
    found = pgsfi_call(instance, prepared, words).f;
    *to = isnan(found) || found < 0 ? 0 : found > FLT_MAX ? FLT_MAX : (float) found;
    return PointerGetDatum(to);
}

static Datum picksplit(FunctionCallInfo fcinfo, const SupportCache *cache, Instance *instance, const char *symbol)
{
    GistEntryVector *entries = (GistEntryVector *) PG_GETARG_POINTER(0);
    GIST_SPLITVEC *split = (GIST_SPLITVEC *) PG_GETARG_POINTER(1);
    int count = entries->n - FirstOffsetNumber, rights = 0;
    Size size = cache->size, part = TYPEALIGN(16, size);
    sfi_prepared *prepared = cache->prepared;
    Size sides = TYPEALIGN(16, count);
    char *room = pgsfi_room(instance, prepared, 2 * part + sides + count * size), *key = room + 2 * part + sides;
    sfi_value words[] = {sfi_u((uintptr_t) key), sfi_u(count), sfi_u((uintptr_t) room + 2 * part), sfi_u((uintptr_t) room),
                         sfi_u((uintptr_t) room + part)};
    const unsigned char *right;

    memset(room, 0, 2 * part + sides);
    for (int i = 0; i < count; i++, key += size)
        memcpy(key, DatumGetPointer(entries->vector[i + FirstOffsetNumber].key), size);
    pgsfi_call(instance, prepared, words);
    right = copy_out(instance, prepared, room + 2 * part, count);
    for (int i = 0; i < count; i++) rights += right[i] != 0;
    if (rights == 0 || rights == count)
        ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION), errmsg("function \"%s\" of library \"%s\" split a page into one part", symbol, instance->library)));
    split->spl_left = palloc(count * sizeof(OffsetNumber));
    split->spl_right = palloc(count * sizeof(OffsetNumber));
    split->spl_nleft = split->spl_nright = 0;
    for (int i = 0; i < count; i++) {
        if (right[i]) split->spl_right[split->spl_nright++] = i + FirstOffsetNumber;
        else split->spl_left[split->spl_nleft++] = i + FirstOffsetNumber;
    }
    split->spl_ldatum = PointerGetDatum(copy_out(instance, prepared, room, size));
    split->spl_rdatum = PointerGetDatum(copy_out(instance, prepared, room + part, size));
    return PointerGetDatum(split);
}

static Datum same(FunctionCallInfo fcinfo, const SupportCache *cache, Instance *instance)
{
    Size size = cache->size, part = TYPEALIGN(16, size);
    sfi_prepared *prepared = cache->prepared;
    char *room = pgsfi_room(instance, prepared, 2 * part);
    sfi_value words[] = {sfi_u((uintptr_t) room), sfi_u((uintptr_t) room + part)};
    bool *to = (bool *) PG_GETARG_POINTER(2);

    memcpy(room, PG_GETARG_POINTER(0), size);
    memcpy(room + part, PG_GETARG_POINTER(1), size);
    *to = (uint32) pgsfi_call(instance, prepared, words).u != 0;
    return PointerGetDatum(to);
}

Datum pgsfi_support_call(FunctionCallInfo fcinfo, SupportCache *cache, Instance *instance, const char *symbol,
                         const Oid *arguments)
{
    Node *expression = fcinfo->flinfo->fn_expr;
    bool by_index = !expression || IsA(expression, Const); /* the options of an operator class */

    /* The server's structures come from an index. A query has only NULL for them, and what a
     * function returned as one. */
    for (int i = 0; i < fcinfo->nargs; i++) by_index = by_index && !fcinfo->args[i].isnull;
    if (!by_index)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("only an index can call a support function of GiST")));
    if (unlikely(!cache->prepared)) fill(fcinfo, cache, instance, symbol, arguments);
    switch (cache->support) {
    case SUPPORT_CONSISTENT: return BoolGetDatum(consistent(fcinfo, cache, instance));
    case SUPPORT_UNION: return unite(fcinfo, cache, instance);
    case SUPPORT_PENALTY: return penalty(fcinfo, cache, instance);
    case SUPPORT_PICKSPLIT: return picksplit(fcinfo, cache, instance, symbol);
    case SUPPORT_SAME: return same(fcinfo, cache, instance);
    case SUPPORT_NONE: break;
    }
    return (Datum) 0;
}
