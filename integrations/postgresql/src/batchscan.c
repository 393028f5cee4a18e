/* The node `SfiBatch`: a filter whose first conditions call functions in LANGUAGE sfi, for many
 * rows in one crossing. Its input is a scan of a table, or an outer plan and an inner scan whose
 * rows are joined.
 *
 * The node reads rows ahead, so the planner's pass takes scans only whose conditions cannot fail.
 * Rows are not copied: their pages stay pinned. If a call of a batch fails, nothing is reported.
 * The rows are then filtered one by one as without this node, each when it is due. */
#include "batch.h"

#include "access/sysattr.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "batchplan.h"

/* A batch of slow functions is not worth it: it would take longer than this, microseconds. */
#define LONGEST 500
/* Bytes of a line of the cache. */
#define LINE 64

/* How a row stands. */
typedef enum Fate { FATE_OUT, FATE_IN, FATE_SINGLE } Fate;

/* A row that was read ahead. Its values are at the same place of another array. */
typedef struct Row {
    HeapTupleData tuple; /* t_data is NULL if the row is minimal */
    MinimalTuple minimal;
} Row;

/* An argument of a stage. */
typedef struct Argument {
    ExprState *common; /* the same for all rows of the inner side; NULL: a column */
    int column;        /* of the values that are read ahead */
} Argument;

/* A condition that is a call, or a comparison of a call and a constant. */
typedef struct Stage {
    FmgrInfo info;
    Batch *batch;
    int count;
    Argument argument[MAX_WORDS];
    ExprState *test;  /* of the call's result; NULL: the result says it */
    bool evaluated;   /* the common arguments, for this outer row */
    bool null;        /* one of them is NULL */
    Datum value[MAX_WORDS];
} Stage;

typedef struct BatchState {
    CustomScanState css;
    PlanState *outer; /* NULL: no join */
    PlanState *inner;
    TupleTableSlot *source; /* the inner rows: of the scan, or the result of a Material */
    bool kept;              /* the inner side is a Material */
    int columns;            /* of the scan tuple */
    bool *of_outer;
    AttrNumber *number; /* in its own row */
    bool *late;         /* it is needed after the stages */
    int read;           /* columns that the stages need */
    AttrNumber *read_number;
    AttrNumber last_read, last_inner, last_outer;
    int stages;
    Stage *stage;
    ExprState *rest; /* the conditions after the stages */
    MemoryContext rows_context;  /* as long as a batch */
    MemoryContext outer_context; /* as long as an outer row */
    MemoryContext kept_context;
    TupleTableSlot *copied;  /* a row that its source does not keep */
    TupleTableSlot *heap, *minimal; /* a row that is due */
    Row *own_rows, *rows;
    Datum *own_values, *values;
    bool *own_nulls, *nulls;
    Fate fate[BATCH_ROWS];
    int count, next; /* rows of the batch, and the one that is due */
    bool ended;      /* the inner side, for this outer row */
    bool ready;      /* there is an outer row */
    bool all;        /* the rows of the Material are in kept_rows */
    bool spilled;    /* they do not fit its memory */
    Row *kept_rows;
    Datum *kept_values;
    bool *kept_nulls;
    int64 kept_count, kept_next;
    int size;  /* of the next batch */
    int until_clock;
    bool off;  /* a batch failed */
    Buffer pins[BATCH_ROWS];
    int pinned;
    uint64 batches;
} BatchState;

static void release(BatchState *state)
{
    while (state->pinned > 0) ReleaseBuffer(state->pins[--state->pinned]);
    state->count = state->next = 0;
}

/* Sets up a stage from its condition. */
static void begin_stage(BatchState *state, Stage *stage, Expr *condition, Oid function)
{
    List *arguments;
    Expr *test;
    ListCell *cell;
    int i = 0;

    if (!pgsfi_batch_condition(condition, function, &arguments, &test)) elog(ERROR, "the condition of a batch is of another kind");
    fmgr_info(function, &stage->info);
    stage->count = list_length(arguments);
    stage->batch = pgsfi_batch_new(stage->count);
    foreach(cell, arguments) {
        Expr *argument = lfirst(cell);
        const Var *column = pgsfi_batch_column(argument);

        if (column && !state->of_outer[column->varattno - 1]) {
            AttrNumber number = state->number[column->varattno - 1];
            int at = 0;

            while (at < state->read && state->read_number[at] != number) at++;
            if (at == state->read) state->read_number[state->read++] = number;
            state->last_read = Max(state->last_read, number);
            stage->argument[i].column = at;
        } else {
            stage->argument[i].common = ExecInitExpr(argument, &state->css.ss.ps);
        }
        i++;
    }
    stage->test = test ? ExecInitExpr(test, &state->css.ss.ps) : NULL;
}

static void begin(CustomScanState *node, EState *estate, int flags)
{
    BatchState *state = (BatchState *) node;
    CustomScan *plan = (CustomScan *) node->ss.ps.plan;
    List *quals = plan->scan.plan.qual;
    Bitmapset *late = NULL;
    ListCell *cell;
    int i = 0;

    flags &= ~(EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
    if (innerPlan(plan)) {
        outerPlanState(node) = state->outer = ExecInitNode(outerPlan(plan), estate, flags);
        innerPlanState(node) = state->inner = ExecInitNode(innerPlan(plan), estate, flags | EXEC_FLAG_REWIND);
    } else {
        outerPlanState(node) = state->inner = ExecInitNode(outerPlan(plan), estate, flags);
    }
    state->kept = IsA(state->inner, MaterialState);
    if (state->kept) {
        state->source = state->inner->ps_ResultTupleSlot;
    } else {
        /* The scan gives its rows as they are in the table. */
        state->inner->ps_ProjInfo = NULL;
        state->source = ((ScanState *) state->inner)->ss_ScanTupleSlot;
    }
    state->columns = list_length(plan->custom_scan_tlist);
    state->of_outer = palloc0(state->columns + 1);
    state->late = palloc0(state->columns + 1);
    state->number = palloc0((state->columns + 1) * sizeof(AttrNumber));
    state->read_number = palloc0((state->columns + 1) * sizeof(AttrNumber));
    foreach(cell, linitial(plan->custom_private)) {
        /* Columns of the outer side are negative. */
        int number = lfirst_int(cell);

        state->of_outer[i] = number < 0;
        state->number[i] = abs(number);
        if (number < 0) state->last_outer = Max(state->last_outer, -number);
        i++;
    }
    state->stages = list_length(lsecond(plan->custom_private));
    state->stage = palloc0(sizeof(Stage) * state->stages);
    for (i = 0; i < state->stages; i++)
        begin_stage(state, &state->stage[i], list_nth(quals, i), list_nth_oid(lsecond(plan->custom_private), i));
    quals = list_copy_tail(quals, state->stages);
    state->rest = ExecInitQual(quals, &node->ss.ps);
    pull_varattnos((Node *) quals, INDEX_VAR, &late);
    pull_varattnos((Node *) plan->scan.plan.targetlist, INDEX_VAR, &late);
    for (i = 0; i < state->columns; i++) {
        state->late[i] = bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, late);
        if (!state->of_outer[i]) state->last_inner = Max(state->last_inner, state->number[i]);
    }
    state->rows_context = AllocSetContextCreate(CurrentMemoryContext, "rows of SfiBatch", ALLOCSET_DEFAULT_SIZES);
    state->outer_context = AllocSetContextCreate(CurrentMemoryContext, "outer row of SfiBatch", ALLOCSET_SMALL_SIZES);
    state->kept_context = AllocSetContextCreate(CurrentMemoryContext, "kept rows of SfiBatch", ALLOCSET_DEFAULT_SIZES);
    state->heap = ExecInitExtraTupleSlot(estate, state->source->tts_tupleDescriptor, &TTSOpsHeapTuple);
    state->minimal = ExecInitExtraTupleSlot(estate, state->source->tts_tupleDescriptor, &TTSOpsMinimalTuple);
    state->copied = ExecInitExtraTupleSlot(estate, state->source->tts_tupleDescriptor, &TTSOpsMinimalTuple);
    state->own_rows = palloc(sizeof(Row) * BATCH_ROWS);
    state->own_values = palloc(sizeof(Datum) * BATCH_ROWS * (state->read + 1));
    state->own_nulls = palloc(BATCH_ROWS * (state->read + 1));
    state->size = 1;
}

/* Asks for the bytes of a row, which the calls read only when the batch is complete. The processor
 * brings many rows at once, and would wait for each otherwise. */
static inline void ask_for(const HeapTupleData *tuple)
{
    const char *bytes = (const char *) tuple->t_data;

    for (uint32 at = LINE; at < Min(tuple->t_len, 8 * LINE); at += LINE) __builtin_prefetch(bytes + at);
}

/* Notes where a row is, and the values of it that the stages need. */
static void note(BatchState *state, TupleTableSlot *slot, Row *row, Datum *values, bool *nulls)
{
    row->minimal = NULL;
    row->tuple.t_data = NULL;
    if (slot->tts_ops == &TTSOpsBufferHeapTuple && !TTS_SHOULDFREE(slot) &&
        BufferIsValid(((BufferHeapTupleTableSlot *) slot)->buffer)) {
        Buffer buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;

        if (state->pinned == 0 || state->pins[state->pinned - 1] != buffer) {
            IncrBufferRefCount(buffer);
            state->pins[state->pinned++] = buffer;
        }
        row->tuple = *((BufferHeapTupleTableSlot *) slot)->base.tuple;
        ask_for(&row->tuple);
    } else if (slot->tts_ops == &TTSOpsMinimalTuple && !TTS_SHOULDFREE(slot) && state->kept) {
        row->minimal = ((MinimalTupleTableSlot *) slot)->mintuple;
    } else {
        MemoryContext old = MemoryContextSwitchTo(state->rows_context);

        row->minimal = ExecCopySlotMinimalTuple(slot);
        MemoryContextSwitchTo(old);
        slot = ExecStoreMinimalTuple(row->minimal, state->copied, false);
    }
    if (state->last_read > 0) slot_getsomeattrs(slot, state->last_read);
    for (int i = 0; i < state->read; i++) {
        values[i] = slot->tts_values[state->read_number[i] - 1];
        nulls[i] = slot->tts_isnull[state->read_number[i] - 1];
    }
}

/* Reads all rows of a Material once. Their tuples stay where they are, in its memory. */
static void keep_all(BatchState *state)
{
    int64 count = 0, room = 0;
    MemoryContext old;

    if (state->all || state->spilled) return;
    /* TupIsNull evaluates its argument twice. */
    for (TupleTableSlot *slot = ExecProcNode(state->inner); !TupIsNull(slot); slot = ExecProcNode(state->inner)) room++;
    ExecReScan(state->inner);
    MemoryContextReset(state->kept_context);
    if (room > 0) {
        TupleTableSlot *slot = ExecProcNode(state->inner);

        state->spilled = TupIsNull(slot) || TTS_SHOULDFREE(slot) || room * sizeof(Row) > (Size) work_mem * 1024;
        ExecReScan(state->inner);
        if (state->spilled) return;
    }
    old = MemoryContextSwitchTo(state->kept_context);
    state->kept_rows = palloc_extended(sizeof(Row) * (room + 1), MCXT_ALLOC_HUGE);
    state->kept_values = palloc_extended(sizeof(Datum) * (room * state->read + 1), MCXT_ALLOC_HUGE);
    state->kept_nulls = palloc_extended(room * state->read + 1, MCXT_ALLOC_HUGE);
    MemoryContextSwitchTo(old);
    while (count < room) {
        TupleTableSlot *slot = ExecProcNode(state->inner);

        if (TupIsNull(slot)) break;
        note(state, slot, &state->kept_rows[count], &state->kept_values[count * state->read], &state->kept_nulls[count * state->read]);
        count++;
    }
    state->kept_count = count;
    state->all = true;
}

/* Goes to the next outer row. Returns false at the end. */
static bool next_outer(BatchState *state)
{
    TupleTableSlot *scan = state->css.ss.ss_ScanTupleSlot, *slot = NULL;

    if (state->outer) {
        slot = ExecProcNode(state->outer);
        if (TupIsNull(slot)) return false;
        if (state->last_outer > 0) slot_getsomeattrs(slot, state->last_outer);
    }
    ExecClearTuple(scan);
    for (int i = 0; i < state->columns; i++) {
        scan->tts_values[i] = state->of_outer[i] ? slot->tts_values[state->number[i] - 1] : (Datum) 0;
        scan->tts_isnull[i] = state->of_outer[i] ? slot->tts_isnull[state->number[i] - 1] : true;
    }
    ExecStoreVirtualTuple(scan);
    MemoryContextReset(state->outer_context);
    for (int i = 0; i < state->stages; i++) state->stage[i].evaluated = false;
    if (state->kept) keep_all(state);
    state->kept_next = 0;
    if (state->outer && !state->all) ExecReScan(state->inner);
    state->ended = false;
    state->ready = true;
    return true;
}

/* Reads rows ahead. Returns false at the end of the inner side. */
static bool read_rows(BatchState *state)
{
    int size = state->off || pgsfi_batch < 2 ? 1 : Min(state->size, pgsfi_batch);

    release(state);
    if (state->ended) return false;
    MemoryContextReset(state->rows_context);
    if (state->all) {
        state->rows = state->kept_rows + state->kept_next;
        state->values = state->kept_values + state->kept_next * state->read;
        state->nulls = state->kept_nulls + state->kept_next * state->read;
        state->count = Min(size, state->kept_count - state->kept_next);
        state->kept_next += state->count;
    } else {
        state->rows = state->own_rows;
        state->values = state->own_values;
        state->nulls = state->own_nulls;
        while (state->count < size) {
            TupleTableSlot *slot = ExecProcNode(state->inner);
            int at = state->count;

            if (TupIsNull(slot)) {
                state->ended = true;
                break;
            }
            note(state, state->source, &state->rows[at], &state->values[at * state->read], &state->nulls[at * state->read]);
            state->count++;
        }
    }
    memset(state->fate, 0, sizeof(Fate) * state->count);
    return state->count > 0;
}

/* Evaluates the arguments that are the same for all inner rows. */
static void evaluate_common(BatchState *state, Stage *stage)
{
    ExprContext *context = state->css.ss.ps.ps_ExprContext;
    MemoryContext old = MemoryContextSwitchTo(state->outer_context);

    context->ecxt_scantuple = state->css.ss.ss_ScanTupleSlot;
    stage->null = false;
    for (int i = 0; i < stage->count; i++) {
        bool null;

        if (!stage->argument[i].common) continue;
        stage->value[i] = ExecEvalExpr(stage->argument[i].common, context, &null);
        stage->null = stage->null || null;
    }
    stage->evaluated = true;
    MemoryContextSwitchTo(old);
}

/* Says whether a value must be unpacked before it crosses. Its row goes alone. */
static inline bool is_packed(const QuickArgument *place, Datum value)
{
    const struct varlena *bytes;

    if (place->kind < KIND_BYTES) return false;
    bytes = (const struct varlena *) DatumGetPointer(value);
    return !(VARATT_IS_4B_U(bytes) || (VARATT_IS_1B(bytes) && !VARATT_IS_1B_E(bytes)));
}

static inline Size size_of(const QuickArgument *place, Datum value)
{
    return place->kind < KIND_FIXED ? 0 : place->kind == KIND_FIXED ? place->size : VARSIZE_ANY((struct varlena *) DatumGetPointer(value));
}

/* Says whether a result passes the stage's comparison. */
static bool passes(BatchState *state, Stage *stage, Datum value, bool null)
{
    ExprContext *context = state->css.ss.ps.ps_ExprContext;
    Datum answer;

    if (!stage->test) return !null && DatumGetBool(value);
    context->caseValue_datum = value;
    context->caseValue_isNull = null;
    answer = ExecEvalExprSwitchContext(stage->test, context, &null);
    return !null && DatumGetBool(answer);
}

/* Makes the call for the rows that wait for it. */
static bool flush(BatchState *state, Stage *stage, const uint16 *waiting)
{
    Batch *batch = stage->batch;

    if (batch->rows == 0) return true;
    if (!pgsfi_batch_call(batch)) {
        state->off = true;
        return false;
    }
    state->batches++;
    for (int i = 0; i < batch->rows; i++)
        if (!passes(state, stage, take_quick(batch->function, batch->results[i]), false)) state->fate[waiting[i]] = FATE_OUT;
    return true;
}

/* Begins a crossing: the common arguments come first. Returns false if they must not cross so. */
static bool begin_crossing(Stage *stage)
{
    pgsfi_batch_clear(stage->batch);
    for (int i = 0; i < stage->count; i++) {
        if (!stage->argument[i].common) continue;
        if (is_packed(&stage->batch->places[i], stage->value[i])) return false;
        batch_common(stage->batch, i, stage->value[i]);
    }
    return stage->batch->size <= pgsfi_batch_room();
}

/* Filters the rows that are still in by one condition. Returns false if they must go one by one. */
static bool run_stage(BatchState *state, Stage *stage)
{
    uint16 waiting[BATCH_ROWS];
    Batch *batch = stage->batch;
    Size room = pgsfi_batch_room();
    bool begun = false;

    for (int row = 0; row < state->count; row++) {
        const Datum *values = state->values + row * state->read;
        const bool *nulls = state->nulls + row * state->read;
        Size size = 0;
        bool null, packed = false;
        sfi_value *words;

        if (state->fate[row] == FATE_OUT) continue;
        if (state->fate[row] == FATE_SINGLE) {
            /* This row is due before the common arguments are. */
            if (!stage->evaluated) return false;
            continue;
        }
        if (!stage->evaluated) evaluate_common(state, stage);
        null = stage->null;
        for (int i = 0; i < stage->count && !null; i++)
            null = !stage->argument[i].common && nulls[stage->argument[i].column];
        if (null) {
            if (!passes(state, stage, (Datum) 0, true)) state->fate[row] = FATE_OUT;
            continue;
        }
        if (!begun) {
            if (!pgsfi_batch_for(batch, pgsfi_function(&stage->info)) || !begin_crossing(stage)) return false;
            begun = true;
        }
        for (int i = 0; i < stage->count && !packed; i++) {
            if (stage->argument[i].common) continue;
            packed = is_packed(&batch->places[i], values[stage->argument[i].column]);
            if (!packed) size += size_of(&batch->places[i], values[stage->argument[i].column]) + 16;
        }
        if (packed || size > room / 2) {
            state->fate[row] = FATE_SINGLE;
            continue;
        }
        if (batch->rows > 0 && batch->size + size > room) {
            if (!flush(state, stage, waiting) || !begin_crossing(stage)) return false;
        }
        waiting[batch->rows] = row;
        words = batch_row(batch);
        for (int i = 0; i < stage->count; i++)
            if (!stage->argument[i].common) batch_argument(batch, words, i, values[stage->argument[i].column]);
    }
    return !begun || flush(state, stage, waiting);
}

/* Chooses the size of the next batch: twice this one's, unless the functions are slow. */
static void adapt(BatchState *state, const instr_time *start)
{
    instr_time now;
    uint64 time;

    INSTR_TIME_SET_CURRENT(now);
    INSTR_TIME_SUBTRACT(now, *start);
    time = INSTR_TIME_GET_MICROSEC(now);
    if (time > LONGEST) state->size = Max(1, state->size / 2);
    else if (time <= LONGEST / 2 && state->count >= state->size) state->size = Min(2 * state->size, BATCH_ROWS);
    state->until_clock = state->size < Min(pgsfi_batch, 8) ? 0 : 16;
}

/* Decides for the rows of the batch. */
static void filter(BatchState *state)
{
    instr_time start;
    /* The server counts calls of functions itself with track_functions. */
    bool one_by_one = state->off || pgsfi_batch < 2 || pgstat_track_functions != TRACK_FUNC_OFF || state->count < 2;
    bool clock = !state->off && pgsfi_batch > 1 && state->until_clock-- <= 0;

    if (clock) INSTR_TIME_SET_CURRENT(start);
    for (int i = 0; i < state->count; i++) state->fate[i] = one_by_one ? FATE_SINGLE : FATE_IN;
    for (int i = 0; i < state->stages && !one_by_one; i++) {
        if (run_stage(state, &state->stage[i])) continue;
        for (int row = 0; row < state->count; row++)
            if (state->fate[row] == FATE_IN) state->fate[row] = FATE_SINGLE;
        break;
    }
    /* A single row is filtered later, so its time does not count. */
    if (clock) adapt(state, &start);
}

/* Fills the scan tuple with the columns of a row. */
static void fill(BatchState *state, const Row *row, bool all)
{
    TupleTableSlot *scan = state->css.ss.ss_ScanTupleSlot, *slot = NULL;

    for (int i = 0; i < state->columns; i++) {
        if (state->of_outer[i] || !(all || state->late[i])) continue;
        if (!slot) {
            slot = row->minimal ? ExecStoreMinimalTuple(row->minimal, state->minimal, false)
                                : ExecStoreHeapTuple((HeapTuple) &row->tuple, state->heap, false);
            slot_getsomeattrs(slot, state->last_inner);
        }
        scan->tts_values[i] = slot->tts_values[state->number[i] - 1];
        scan->tts_isnull[i] = slot->tts_isnull[state->number[i] - 1];
    }
}

static TupleTableSlot *exec(CustomScanState *node)
{
    BatchState *state = (BatchState *) node;
    ExprContext *context = node->ss.ps.ps_ExprContext;
    TupleTableSlot *scan = node->ss.ss_ScanTupleSlot;

    for (;;) {
        CHECK_FOR_INTERRUPTS();
        ResetExprContext(context);
        if (!state->ready) {
            if ((state->ended && !state->outer) || !next_outer(state)) break;
        }
        if (state->next == state->count) {
            if (read_rows(state)) {
                filter(state);
            } else {
                state->ready = false;
                state->ended = true;
                continue;
            }
        }
        while (state->next < state->count) {
            int at = state->next++;
            bool single = state->fate[at] == FATE_SINGLE;

            if (state->fate[at] == FATE_OUT) {
                InstrCountFiltered1(node, 1);
                continue;
            }
            CHECK_FOR_INTERRUPTS();
            ResetExprContext(context);
            fill(state, &state->rows[at], single);
            context->ecxt_scantuple = scan;
            if (ExecQual(single ? node->ss.ps.qual : state->rest, context))
                return node->ss.ps.ps_ProjInfo ? ExecProject(node->ss.ps.ps_ProjInfo) : scan;
            InstrCountFiltered1(node, 1);
        }
    }
    if (node->ss.ps.ps_ProjInfo) return ExecClearTuple(node->ss.ps.ps_ResultTupleSlot);
    return NULL;
}

static void forget(BatchState *state)
{
    release(state);
    ExecClearTuple(state->heap);
    ExecClearTuple(state->minimal);
    ExecClearTuple(state->copied);
    state->ready = state->ended = false;
    state->size = 1;
    state->until_clock = 0;
}

static void rescan(CustomScanState *node)
{
    BatchState *state = (BatchState *) node;

    forget(state);
    ExecClearTuple(node->ss.ss_ScanTupleSlot);
    if (state->inner->chgParam) state->all = state->spilled = false;
    if (state->outer) {
        if (!state->outer->chgParam) ExecReScan(state->outer);
    } else if (!state->inner->chgParam) {
        ExecReScan(state->inner);
    }
}

static void end(CustomScanState *node)
{
    BatchState *state = (BatchState *) node;

    forget(state);
    ExecClearTuple(node->ss.ss_ScanTupleSlot);
    if (state->outer) ExecEndNode(state->outer);
    ExecEndNode(state->inner);
}

static void explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
    BatchState *state = (BatchState *) node;

    if (es->verbose) ExplainPropertyInteger("Batched Conditions", NULL, state->stages, es);
    if (es->analyze && es->timing) ExplainPropertyUInteger("Batches", NULL, state->batches, es);
}

static const CustomExecMethods methods = {
    .CustomName = BATCH_NODE,
    .BeginCustomScan = begin,
    .ExecCustomScan = exec,
    .EndCustomScan = end,
    .ReScanCustomScan = rescan,
    .ExplainCustomScan = explain,
};

static Node *create(CustomScan *plan)
{
    BatchState *state = palloc0(sizeof *state);

    NodeSetTag(state, T_CustomScanState);
    state->css.methods = &methods;
    return (Node *) state;
}

const CustomScanMethods pgsfi_batch_methods = {BATCH_NODE, create};
