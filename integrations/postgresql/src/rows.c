/* Rows, which are values of composite types: each column crosses as struct sfi_column, in the form
 * of its type. Rows within rows cross as text. */
#include "pgsfi.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

/* The columns of a row. Dropped ones do not cross. */
typedef struct RowType {
    TupleDesc columns;
    uint64 version; /* of the type, 0 for a row that is no type */
    int count; /* of the columns that cross */
    Crossing crossings[FLEXIBLE_ARRAY_MEMBER];
} RowType;

/* A row on its way into a domain. */
typedef struct Row {
    Datum *values;
    bool *nulls;
} Row;

/* Most columns of a row. */
enum { MOST_COLUMNS = 1600 };

TupleDesc pgsfi_row_columns(const Crossing *crossing)
{
    return crossing->row->columns;
}

void pgsfi_describe_row(TupleDesc columns, bool result, Crossing *crossing, MemoryContext context)
{
    MemoryContext old = MemoryContextSwitchTo(context);
    RowType *row = palloc0(offsetof(RowType, crossings) + columns->natts * sizeof(Crossing));

    if (columns->natts > MOST_COLUMNS) elog(ERROR, "a row with too many columns");
    row->columns = BlessTupleDesc(CreateTupleDescCopy(columns));
    if (columns->tdtypeid != RECORDOID) row->version = assign_record_type_identifier(columns->tdtypeid, -1);
    for (int i = 0; i < columns->natts; i++) {
        Form_pg_attribute column = TupleDescAttr(columns, i);

        if (column->attisdropped) continue;
        row->count++;
        pgsfi_describe(column->atttypid, column->atttypmod, result, &row->crossings[i], context);
        if (row->crossings[i].kind == KIND_ROW) pgsfi_describe_text(&row->crossings[i], result);
    }
    crossing->kind = KIND_ROW;
    crossing->modifier = -1;
    crossing->row = row;
    MemoryContextSwitchTo(old);
}

bool pgsfi_row_changed(const Crossing *crossing)
{
    const RowType *row = crossing->row;

    return row->version != 0 && assign_record_type_identifier(row->columns->tdtypeid, -1) != row->version;
}

Size pgsfi_prepare_row(const Crossing *crossing, Datum *value)
{
    const RowType *type = crossing->row;
    HeapTupleHeader header = DatumGetHeapTupleHeader(*value);
    HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};
    int count = type->columns->natts;
    Row *row = palloc(sizeof *row);
    Size size = type->count * sizeof(Column) + 32;

    row->values = palloc(count * sizeof(Datum));
    row->nulls = palloc(count * sizeof(bool));
    heap_deform_tuple(&tuple, type->columns, row->values, row->nulls);
    for (int i = 0; i < count; i++)
        if (!TupleDescAttr(type->columns, i)->attisdropped && !row->nulls[i])
            size += pgsfi_prepare_argument(&type->crossings[i], &row->values[i]);
    *value = PointerGetDatum(row);
    return size;
}

void pgsfi_put_row(const Crossing *crossing, Datum value, char **room, sfi_value *words)
{
    const RowType *type = crossing->row;
    const Row *row = (const Row *) DatumGetPointer(value);
    Column *column = (Column *) *room;

    words[0] = sfi_u((uintptr_t) column);
    words[1] = sfi_u(type->count);
    *room += TYPEALIGN(16, type->count * sizeof(Column));
    for (int i = 0; i < type->columns->natts; i++) {
        sfi_value parts[3] = {sfi_u(0), sfi_u(0), sfi_u(0)};

        if (TupleDescAttr(type->columns, i)->attisdropped) continue;
        if (!row->nulls[i]) pgsfi_put(&type->crossings[i], row->values[i], room, parts);
        *column++ = (Column) {parts[0], parts[1].u, row->nulls[i], parts[2].u != 0};
    }
}

Column *pgsfi_copy_columns(const Found *found, uint64 count)
{
    Column *columns;

    if (count > MaxAllocSize / sizeof *columns)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("a result of a function in LANGUAGE sfi is too large")));
    columns = palloc(count * sizeof *columns + 1);
    if (count > 0)
        memcpy(columns, pgsfi_view(found->instance, found->prepared, found->word.u, count * sizeof *columns), count * sizeof *columns);
    return columns;
}

Datum pgsfi_take_column(Crossing *crossing, const Found *found, const Column *column, bool *null)
{
    Found part = {found->instance, found->prepared, column->value, column->length, column->closed != 0};

    *null = column->is_null != 0;
    if (!*null) return pgsfi_take(crossing, &part);
    pgsfi_check_null(crossing);
    return (Datum) 0;
}

int pgsfi_row_width(const Crossing *crossing)
{
    return crossing->row->count;
}

void pgsfi_take_columns(const Crossing *crossing, const Found *found, const Column *columns, Datum *values, bool *nulls)
{
    const RowType *type = crossing->row;
    int next = 0;

    for (int i = 0; i < type->columns->natts; i++) {
        values[i] = (Datum) 0;
        nulls[i] = true;
        if (!TupleDescAttr(type->columns, i)->attisdropped)
            values[i] = pgsfi_take_column((Crossing *) &type->crossings[i], found, &columns[next++], &nulls[i]);
    }
}

void pgsfi_take_one(const Crossing *crossing, const Found *found, Datum *values, bool *nulls)
{
    const RowType *type = crossing->row;

    if (found->length != (uint64) type->count)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("a function in LANGUAGE sfi returned a row of %llu columns", (unsigned long long) found->length),
                        errdetail("The row's type has %d.", type->count)));
    pgsfi_take_columns(crossing, found, pgsfi_copy_columns(found, type->count), values, nulls);
}

Datum pgsfi_take_row(const Crossing *crossing, const Found *found)
{
    TupleDesc columns = crossing->row->columns;
    Datum *values = palloc(columns->natts * sizeof(Datum) + 1);
    bool *nulls = palloc(columns->natts * sizeof(bool) + 1);

    /* The caller would read the columns as what they are now. */
    if (pgsfi_row_changed(crossing))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("type %s changed while a function that returns it ran", format_type_be(columns->tdtypeid))));
    pgsfi_take_one(crossing, found, values, nulls);
    return HeapTupleGetDatum(heap_form_tuple(columns, values, nulls));
}
