/* Values on their way into a domain and back. Arguments are copied once, into the callee's room.
 * Results are read in place, checked and copied out once.
 *
 * A domain may return any bytes. So only types whose every bit pattern the server can handle cross
 * as they are. All others cross as text, and the type's own input function checks it. */
#include "pgsfi.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/proclang.h"
#include "datatype/timestamp.h"
#include "mb/pg_wchar.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"
#include "utils/geo_decls.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

/* Says whether a function, such as a type's input function, is in this language. */
static bool in_language(Oid function)
{
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    bool own = false;

    if (HeapTupleIsValid(tuple)) {
        own = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == get_language_oid("sfi", true);
        ReleaseSysCache(tuple);
    }
    return own;
}

/* Says whether a type is sfi.state, or another one whose input function is that of bigint. */
static bool is_state(Oid input)
{
    FmgrInfo function;

    fmgr_info(input, &function);
    return function.fn_addr == int8in;
}

/* Types of numbers by value that the server takes with any bits, after the checks of take_word. */
static bool is_word(Oid type)
{
    switch (type) {
    case BOOLOID: case INT2OID: case INT4OID: case INT8OID: case OIDOID: case CHAROID: case DATEOID: case TIMEOID:
    case TIMESTAMPOID: case TIMESTAMPTZOID: case CASHOID:
        return true;
    default:
        return false;
    }
}

static bool is_fixed(Oid type)
{
    switch (type) {
    case POINTOID: case LSEGOID: case BOXOID: case LINEOID: case CIRCLEOID: case UUIDOID:
        return true;
    default:
        return false;
    }
}

/* Lets the values cross as text, by the type's output or input function. */
void pgsfi_describe_text(Crossing *crossing, bool result)
{
    Oid function, parameter;
    char delimiter;
    bool varlena;

    crossing->kind = KIND_PRINTED;
    if (result) {
        get_type_io_data(crossing->type, IOFunc_input, &crossing->size, &crossing->by_value, &crossing->align, &delimiter,
                         &parameter, &function);
        crossing->parameter = parameter;
    } else {
        getTypeOutputInfo(crossing->type, &function, &varlena);
    }
    fmgr_info_cxt(function, &crossing->print, crossing->context);
}

void pgsfi_describe(Oid type, int32 modifier, bool result, Crossing *crossing, MemoryContext context)
{
    Oid input, parameter;
    char delimiter;

    memset(crossing, 0, sizeof *crossing);
    if (type == VOIDOID) {
        crossing->kind = KIND_VOID;
        return;
    }
    crossing->context = context;
    crossing->modifier = modifier;
    crossing->type = getBaseTypeAndTypmod(type, &crossing->modifier);
    if (result && crossing->type != type) crossing->domain = type;
    type = crossing->type;
    if (!get_typisdefined(type)) {
        /* The validator sees functions of a type before the type is defined. */
        crossing->kind = KIND_BYTES;
        return;
    }
    if (type == CSTRINGOID) {
        crossing->kind = KIND_CSTRING;
        return;
    }
    if (get_typtype(type) == TYPTYPE_COMPOSITE) {
        TupleDesc columns = lookup_rowtype_tupdesc(type, -1);

        pgsfi_describe_row(columns, result, crossing, context);
        ReleaseTupleDesc(columns);
        return;
    }
    if (get_typtype(type) == TYPTYPE_PSEUDO && (type != RECORDOID || result))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("a function in LANGUAGE sfi cannot have type %s", format_type_be(type))));
    get_typlenbyvalalign(type, &crossing->size, &crossing->by_value, &crossing->align);
    /* The server reads the bounds of these two without a look at the number of dimensions. */
    crossing->element = type == OIDVECTOROID || type == INT2VECTOROID ? InvalidOid : get_element_type(type);
    if (type == FLOAT4OID) crossing->kind = KIND_FLOAT4;
    else if (type == FLOAT8OID) crossing->kind = KIND_FLOAT8;
    else if (is_word(type)) crossing->kind = KIND_WORD;
    else if (is_fixed(type)) crossing->kind = KIND_FIXED;
    else if (type == BYTEAOID) crossing->kind = KIND_BYTES;
    else if (type == TEXTOID || type == VARCHAROID || type == BPCHAROID) crossing->kind = KIND_TEXT;
    else if (type == POLYGONOID) crossing->kind = KIND_POLYGON;
    else if (type == PATHOID) crossing->kind = KIND_PATH;
    else if (OidIsValid(crossing->element) && crossing->modifier < 0 &&
             (is_word(crossing->element) || is_fixed(crossing->element) || crossing->element == FLOAT4OID || crossing->element == FLOAT8OID)) {
        crossing->kind = KIND_ARRAY;
        get_typlenbyvalalign(crossing->element, &crossing->size, &crossing->by_value, &crossing->align);
    } else {
        get_type_io_data(type, IOFunc_input, &crossing->size, &crossing->by_value, &crossing->align, &delimiter,
                         &parameter, &input);
        if (crossing->by_value && is_state(input)) {
            crossing->kind = KIND_WORD;
            return;
        }
        if (get_typtype(type) == TYPTYPE_BASE && type >= FirstNormalObjectId && in_language(input)) {
            crossing->kind = crossing->by_value ? KIND_WORD : crossing->size > 0 ? KIND_FIXED : KIND_BYTES;
            return;
        }
        pgsfi_describe_text(crossing, result);
    }
}

int pgsfi_words(Kind kind)
{
    switch (kind) {
    case KIND_VOID: return 0;
    case KIND_WORD: case KIND_FLOAT4: case KIND_FLOAT8: case KIND_FIXED: return 1;
    case KIND_PATH: return 3;
    default: return 2;
    }
}

/* Pointers in registers are said to be pointers. Others cross as the numbers that they are. */
void pgsfi_signature_word(StringInfo to, bool pointer, int *words)
{
    appendStringInfoString(to, pointer && *words < 6 ? "ptr, " : "int, ");
    (*words)++;
}

void pgsfi_signature(StringInfo to, Kind kind, int *words)
{
    switch (kind) {
    case KIND_FLOAT4: case KIND_FLOAT8:
        appendStringInfoString(to, "float, ");
        break;
    default:
        for (int i = 0; i < pgsfi_words(kind); i++) pgsfi_signature_word(to, i == 0 && kind != KIND_WORD, words);
        break;
    }
}

/* Detoasts or prints a value that is not NULL. Returns the bytes that it needs in the room. */
Size pgsfi_prepare_argument(const Crossing *crossing, Datum *value)
{
    struct varlena *bytes;

    switch (crossing->kind) {
    case KIND_FIXED:
        return MAXALIGN(crossing->size) + 16;
    case KIND_BYTES: case KIND_TEXT:
        bytes = PG_DETOAST_DATUM_PACKED(*value);
        *value = PointerGetDatum(bytes);
        return VARSIZE_ANY_EXHDR(bytes) + 32;
    case KIND_POLYGON: case KIND_PATH:
        bytes = PG_DETOAST_DATUM(*value);
        *value = PointerGetDatum(bytes);
        return VARSIZE(bytes) + 32;
    case KIND_ARRAY: {
        ArrayType *array = DatumGetArrayTypeP(*value);

        *value = PointerGetDatum(array);
        if (crossing->nulls) return ((Size) ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array))) * (crossing->size + 1) + 32;
        if (ARR_HASNULL(array) && array_contains_nulls(array))
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("an array for a STRICT function in LANGUAGE sfi must not have NULL elements"),
                            errhint("Functions that are not STRICT get them, with sfi_array_nulls.")));
        return ARR_SIZE(array) + 32;
    }
    case KIND_PRINTED:
        *value = CStringGetDatum(OutputFunctionCall((FmgrInfo *) &crossing->print, *value));
        return strlen(DatumGetCString(*value)) + 33;
    case KIND_CSTRING:
        return strlen(DatumGetCString(*value)) + 33;
    case KIND_ROW:
        return pgsfi_prepare_row(crossing, value);
    default:
        return 0;
    }
}

static void put_bytes(const void *bytes, Size length, Size count, char **room, sfi_value *words)
{
    memcpy(*room, bytes, length);
    words[0] = sfi_u((uintptr_t) *room);
    words[1] = sfi_u(count);
    *room += TYPEALIGN(16, length + 1);
}

/* Writes all elements, NULL ones as zeros, and a byte for each that says whether it is NULL. */
static void put_elements(const Crossing *crossing, ArrayType *array, int count, char **room, sfi_value *words)
{
    const char *from = ARR_DATA_PTR(array);
    const bits8 *known = ARR_NULLBITMAP(array);
    char *to = *room, *nulls = to + (Size) count * crossing->size;

    for (int i = 0; i < count; i++, to += crossing->size) {
        nulls[i] = known && !(known[i / 8] & (1 << i % 8));
        if (nulls[i]) {
            memset(to, 0, crossing->size);
        } else {
            memcpy(to, from, crossing->size);
            from += crossing->size;
        }
    }
    words[0] = sfi_u((uintptr_t) *room);
    words[1] = sfi_u(count);
    *room += TYPEALIGN(16, (Size) count * (crossing->size + 1) + 1);
}

/* Writes a value that pgsfi_prepare_argument returned. Returns the number of its words. */
int pgsfi_put(const Crossing *crossing, Datum value, char **room, sfi_value *words)
{
    switch (crossing->kind) {
    case KIND_WORD:
        words[0] = sfi_u(value);
        return 1;
    case KIND_FLOAT4:
        words[0] = sfi_f32(DatumGetFloat4(value));
        return 1;
    case KIND_FLOAT8:
        words[0] = sfi_f64(DatumGetFloat8(value));
        return 1;
    case KIND_FIXED:
        memcpy(*room, DatumGetPointer(value), crossing->size);
        words[0] = sfi_u((uintptr_t) *room);
        *room += TYPEALIGN(16, crossing->size);
        return 1;
    case KIND_BYTES: case KIND_TEXT: {
        struct varlena *bytes = (struct varlena *) DatumGetPointer(value);

        put_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), VARSIZE_ANY_EXHDR(bytes), room, words);
        return 2;
    }
    case KIND_POLYGON: {
        POLYGON *polygon = DatumGetPolygonP(value);
        Size most = (VARSIZE(polygon) - offsetof(POLYGON, p)) / sizeof(Point), points = Min((Size) polygon->npts, most);

        put_bytes(polygon->p, points * sizeof(Point), points, room, words);
        return 2;
    }
    case KIND_PATH: {
        PATH *path = DatumGetPathP(value);

        put_bytes(path->p, path->npts * sizeof(Point), path->npts, room, words);
        words[2] = sfi_u(path->closed != 0);
        return 3;
    }
    case KIND_ARRAY: {
        ArrayType *array = (ArrayType *) DatumGetPointer(value);
        int count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

        if (crossing->nulls) put_elements(crossing, array, count, room, words);
        else put_bytes(ARR_DATA_PTR(array), (Size) count * crossing->size, count, room, words);
        return 2;
    }
    case KIND_CSTRING: case KIND_PRINTED: {
        Size length = strlen(DatumGetCString(value));

        put_bytes(DatumGetCString(value), length + 1, length, room, words);
        return 2;
    }
    case KIND_ROW:
        pgsfi_put_row(crossing, value, room, words);
        return 2;
    case KIND_VOID:
        break;
    }
    return 0;
}

static Datum take_word(const Crossing *crossing, uint64 word)
{
    Datum value;

    if (crossing->type == BOOLOID) return BoolGetDatum((word & 0xff) != 0);
    switch (crossing->size) {
    case 1: value = CharGetDatum((char) word); break;
    case 2: value = Int16GetDatum((int16) word); break;
    case 4: value = Int32GetDatum((int32) word); break;
    default: value = Int64GetDatum((int64) word); break;
    }
    if ((crossing->type == DATEOID && !DATE_NOT_FINITE(DatumGetDateADT(value)) && !IS_VALID_DATE(DatumGetDateADT(value))) ||
        (crossing->type == TIMEOID && (DatumGetTimeADT(value) < 0 || DatumGetTimeADT(value) > USECS_PER_DAY)) ||
        ((crossing->type == TIMESTAMPOID || crossing->type == TIMESTAMPTZOID) && !TIMESTAMP_NOT_FINITE(DatumGetTimestamp(value)) &&
         !IS_VALID_TIMESTAMP(DatumGetTimestamp(value))))
        ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE), errmsg("a function in LANGUAGE sfi returned a %s out of range", format_type_be(crossing->type))));
    return value;
}

static Size bytes_of(uint64 count, Size each, Size head)
{
    if (count > (MaxAllocSize - head) / each)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("a result of a function in LANGUAGE sfi is too large")));
    return count * each;
}

static Datum take_polygon(const void *points, uint64 count)
{
    Size size = offsetof(POLYGON, p) + count * sizeof(Point);
    POLYGON *polygon = palloc0(size);
    Point *p = polygon->p;

    if (count == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a function in LANGUAGE sfi returned a polygon without points")));
    SET_VARSIZE(polygon, size);
    polygon->npts = count;
    memcpy(p, points, count * sizeof(Point));
    polygon->boundbox.high = polygon->boundbox.low = p[0];
    for (uint64 i = 1; i < count; i++) {
        polygon->boundbox.low.x = float8_min(polygon->boundbox.low.x, p[i].x);
        polygon->boundbox.low.y = float8_min(polygon->boundbox.low.y, p[i].y);
        polygon->boundbox.high.x = float8_max(polygon->boundbox.high.x, p[i].x);
        polygon->boundbox.high.y = float8_max(polygon->boundbox.high.y, p[i].y);
    }
    return PointerGetDatum(polygon);
}

static Datum take_path(const void *points, uint64 count, bool closed)
{
    Size size = offsetof(PATH, p) + count * sizeof(Point);
    PATH *path;

    if (count == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a function in LANGUAGE sfi returned a path without points")));
    path = palloc0(size);
    SET_VARSIZE(path, size);
    path->npts = count;
    path->closed = closed;
    memcpy(path->p, points, count * sizeof(Point));
    return PointerGetDatum(path);
}

static Datum take_array(const Crossing *crossing, const void *elements, uint64 count)
{
    Size head = ARR_OVERHEAD_NONULLS(1), size = head + count * crossing->size;
    ArrayType *array;

    if (count == 0) return PointerGetDatum(construct_empty_array(crossing->element));
    array = palloc0(size);
    SET_VARSIZE(array, size);
    array->ndim = 1;
    array->elemtype = crossing->element;
    ARR_DIMS(array)[0] = count;
    ARR_LBOUND(array)[0] = 1;
    memcpy(ARR_DATA_PTR(array), elements, count * crossing->size);
    /* The checks of single values. */
    if (crossing->element == BOOLOID || crossing->element == DATEOID || crossing->element == TIMEOID ||
        crossing->element == TIMESTAMPOID || crossing->element == TIMESTAMPTZOID) {
        Crossing element = *crossing;
        char *at = ARR_DATA_PTR(array);

        element.type = crossing->element;
        for (uint64 i = 0; i < count; i++, at += crossing->size)
            store_att_byval(at, take_word(&element, fetch_att(at, true, crossing->size)), crossing->size);
    }
    return PointerGetDatum(array);
}

static const void *view(const Found *found, Size size)
{
    return size ? pgsfi_view(found->instance, found->prepared, found->word.u, size) : "";
}

/* Makes the value without a look at a domain over its type. */
static Datum take(Crossing *crossing, const Found *found)
{
    Size size;

    switch (crossing->kind) {
    case KIND_VOID:
        return (Datum) 0;
    case KIND_WORD:
        return take_word(crossing, found->word.u);
    case KIND_FLOAT4:
        return Float4GetDatum(sfi_as_f32(found->word));
    case KIND_FLOAT8:
        return Float8GetDatum(found->word.f);
    case KIND_FIXED: {
        void *copy = palloc(crossing->size);

        memcpy(copy, view(found, crossing->size), crossing->size);
        return PointerGetDatum(copy);
    }
    case KIND_BYTES: case KIND_TEXT: case KIND_CSTRING: case KIND_PRINTED: {
        char *copy;
        Size head;

        size = bytes_of(found->length, 1, VARHDRSZ + 1);
        head = crossing->kind == KIND_BYTES || crossing->kind == KIND_TEXT ? VARHDRSZ : 0;
        copy = palloc(head + size + 1);
        memcpy(copy + head, view(found, size), size);
        copy[head + size] = 0;
        if (head) SET_VARSIZE(copy, head + size);
        /* Checked in the copy. The domain's own bytes are the domain's. */
        if (crossing->kind != KIND_BYTES) pg_verifymbstr(copy + head, size, false);
        if (crossing->kind == KIND_PRINTED)
            return InputFunctionCall(&crossing->print, copy, crossing->parameter, crossing->modifier);
        return PointerGetDatum(copy);
    }
    case KIND_POLYGON:
        size = bytes_of(found->length, sizeof(Point), offsetof(POLYGON, p));
        return take_polygon(view(found, size), found->length);
    case KIND_PATH:
        size = bytes_of(found->length, sizeof(Point), offsetof(PATH, p));
        return take_path(view(found, size), found->length, found->closed);
    case KIND_ARRAY:
        size = bytes_of(found->length, crossing->size, ARR_OVERHEAD_NONULLS(1));
        return take_array(crossing, view(found, size), found->length);
    case KIND_ROW:
        return pgsfi_take_row(crossing, found);
    }
    elog(ERROR, "a result that cannot cross");
}

Datum pgsfi_take(Crossing *crossing, const Found *found)
{
    Datum value = take(crossing, found);
    Oid shorten;

    /* Text had its length or precision from the start. */
    if (unlikely(crossing->modifier >= 0) && crossing->kind != KIND_PRINTED &&
        find_typmod_coercion_function(crossing->type, &shorten) == COERCION_PATH_FUNC)
        value = OidFunctionCall3(shorten, value, Int32GetDatum(crossing->modifier), BoolGetDatum(false));
    if (unlikely(OidIsValid(crossing->domain))) domain_check(value, false, crossing->domain, &crossing->checks, crossing->context);
    return value;
}

void pgsfi_check_null(Crossing *crossing)
{
    if (OidIsValid(crossing->domain)) domain_check((Datum) 0, true, crossing->domain, &crossing->checks, crossing->context);
}
