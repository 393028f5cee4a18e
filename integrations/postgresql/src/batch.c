/* The crossing for many rows. The words of all rows lie in one room, a loop of the domain calls the
 * function for each of them, and the results are read where the loop left them. The domain may
 * change all of it meanwhile: that harms the results of its own function alone. */
#include "batch.h"

#include "miscadmin.h"

Batch *pgsfi_batch_new(int arguments)
{
    return palloc0(offsetof(Batch, piece) + sizeof(Piece) * BATCH_ROWS * arguments);
}

bool pgsfi_batch_for(Batch *batch, Function *function)
{
    int ints = 0, floats = 0;

    if (batch->function == function) return batch->possible;
    batch->function = function;
    batch->pointer = 0;
    batch->possible = false;
    if (!function->instance->loops || !function->quick || !function->strict || function->set || function->result.kind > KIND_FLOAT8) return false;
    for (int i = 0; i < function->count; i++) {
        QuickArgument *place = &batch->places[i];
        bool real = function->quick_arguments[i].kind == KIND_FLOAT4 || function->quick_arguments[i].kind == KIND_FLOAT8;

        *place = function->quick_arguments[i];
        place->word = real ? BATCH_INTS + floats : ints;
        if (real) floats++;
        else ints += pgsfi_words(place->kind);
    }
    if (ints > BATCH_INTS || floats > BATCH_FLOATS) return false;
    batch->stride = floats > 0 ? BATCH_WORDS : BATCH_INTS;
    batch->loop = (floats > 0 ? 2 : 0) + (function->result.kind != KIND_WORD ? 1 : 0);
    batch->possible = true;
    return true;
}

void pgsfi_batch_clear(Batch *batch)
{
    batch->rows = 0;
    batch->size = 0;
    batch->pieces = 0;
    batch->common = 0;
    memset(batch->first, 0, sizeof batch->first);
}

Size pgsfi_batch_room(void)
{
    return Min((Size) 64 * 1024, (Size) pgsfi_stack * 1024 / 8);
}

/* Finds the function and its loop in the domain. */
static sfi_prepared *loop_of(Batch *batch)
{
    Instance *instance = batch->function->instance;
    sfi_prepared **loop = &instance->batches[batch->loop];
    char name[] = "__sfi_pg_batch_0";

    if (batch->pointer == 0 || batch->faults != instance->counts.faults) {
        batch->faults = instance->counts.faults;
        if (sfi_world_symbol(instance->world, LIBRARY_DOMAIN, batch->function->symbol, &batch->pointer, NULL) != SFI_OK) {
            batch->pointer = 0;
            return NULL;
        }
    }
    name[sizeof name - 2] += batch->loop;
    if (!*loop && sfi_prepare(instance->world, LIBRARY_DOMAIN, name, "(ptr, ptr, ptr, int) -> void", loop, NULL) != SFI_OK)
        *loop = NULL;
    return *loop;
}

/* Puts the rows into the room. */
static void fill(Batch *batch, char *room, Size results, Size pieces)
{
    char *at = room + pieces;

    for (int i = 0; i < batch->common; i++) {
        int word = batch->common_piece[i].word - batch->first;

        at = put_piece(&batch->common_piece[i], at);
        for (int row = 0; row < batch->rows; row++) batch->words[row * batch->stride + word] = batch->first[word];
    }
    for (int i = 0; i < batch->pieces; i++) at = put_piece(&batch->piece[i], at);
    memcpy(room, batch->words, sizeof(sfi_value) * batch->stride * batch->rows);
    memset(room + results, 0, sizeof(sfi_value) * batch->rows);
}

bool pgsfi_batch_call(Batch *batch)
{
    Instance *instance = batch->function->instance;
    Size results = TYPEALIGN(16, sizeof(sfi_value) * batch->stride * batch->rows);
    Size pieces = results + TYPEALIGN(16, sizeof(sfi_value) * batch->rows);
    sfi_prepared *loop;
    sfi_error *error = NULL;
    sfi_status status;
    sfi_value words[4], nothing;
    void *room;
    const void *found;

    /* The call of the first row tells of the penalty. */
    if (instance->record && pg_atomic_read_u64(&instance->record->until) != 0) return false;
    loop = loop_of(batch);
    if (!loop) return false;
    pgsfi_progress.caller = &batch->function->caller;
    pgsfi_progress.instance = instance;
    pgsfi_begin();
    status = sfi_prepared_room(instance->world, loop, pieces + batch->size, &room, &error);
    if (status == SFI_OK) {
        fill(batch, room, results, pieces);
        words[0] = sfi_u(batch->pointer);
        words[1] = sfi_u((uintptr_t) room);
        words[2] = sfi_u((uintptr_t) room + results);
        words[3] = sfi_u(batch->rows);
        pgsfi_progress.asked = false;
        pgsfi_progress.batch = true;
        status = unlikely(pgsfi_timing) ? pgsfi_timed_call(instance, loop, words, &nothing, &error)
                                        : sfi_prepared_call(instance->world, loop, words, &nothing, &error);
        pgsfi_progress.batch = false;
    }
    pgsfi_end();
    instance->counts.calls++;
    if (unlikely(status != SFI_OK)) {
        sfi_error_free(error);
        /* A life of the library ended. The row's own call brings a penalty if it faults too. */
        if (status == SFI_FAULT) instance->counts.faults++;
        /* The pointer is looked up again. A request to end the query is why the call ended. */
        batch->pointer = 0;
        CHECK_FOR_INTERRUPTS();
        return false;
    }
    if (pgsfi_progress.asked) return false;
    if (sfi_prepared_view(instance->world, loop, (uintptr_t) room + results, sizeof(sfi_value) * batch->rows, &found, NULL) != SFI_OK)
        return false;
    memcpy(batch->results, found, sizeof(sfi_value) * batch->rows);
    instance->counts.calls += batch->rows - 1;
    instance->counts.shared += batch->rows - 1;
    return true;
}
