/* The functions as WebAssembly, in the C code that wasm2c makes. It runs in the backend, in a
 * memory of its own, to which arguments are copied. A trap is an ERROR. */
#include "postgres.h"

#include <signal.h>

#include "fmgr.h"
#include "utils/geo_decls.h"

#include "module.h"
#include "wasm-rt-impl.h"

static Z_polygons_instance_t instance;
static bool ready;

typedef struct Room {
    wasm_rt_memory_t *memory;
    u32 next;
} Room;

/* Returns the memory of the instance, and the first free place in it. */
static Room enter(void)
{
    if (!ready) {
        wasm_rt_init();
        Z_polygons_init_module();
        Z_polygons_instantiate(&instance);
        ready = true;
    }
    return (Room) {Z_polygonsZ_memory(&instance), TYPEALIGN(16, *Z_polygonsZ___heap_base(&instance))};
}

static u32 put(Room *room, const void *bytes, size_t length)
{
    u32 at = room->next;

    if (length > room->memory->size - at) elog(ERROR, "too many points");
    memcpy(room->memory->data + at, bytes, length);
    room->next = TYPEALIGN(16, at + length);
    return at;
}

/* Ends a statement after a trap, which may have come as a signal. */
static void trapped(int trap)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGSEGV);
    sigaddset(&signals, SIGBUS);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    elog(ERROR, "trap %d", trap);
}

/* Where a trap jumps to: it must be in the frame of the caller. Unlike wasm_rt_impl_try it saves no
 * mask of signals, which would be a system call for each call. */
#define CATCH()                                         \
    do {                                                \
        int trap;                                       \
                                                        \
        wasm_rt_set_unwind_target(&wasm_rt_jmp_buf);    \
        trap = sigsetjmp(wasm_rt_jmp_buf, 0);           \
        if (trap != 0) trapped(trap);                   \
    } while (0)
#define PUT_POLYGON(room, polygon) put(room, (polygon)->p, (polygon)->npts * sizeof(Point)), (u32) (polygon)->npts

PG_FUNCTION_INFO_V1(wasm_size);
Datum wasm_size(PG_FUNCTION_ARGS)
{
    POLYGON *polygon = PG_GETARG_POLYGON_P(0);
    Room room = enter();

    CATCH();
    PG_RETURN_FLOAT8(Z_polygonsZ_poly_size(&instance, PUT_POLYGON(&room, polygon)));
}

PG_FUNCTION_INFO_V1(wasm_contains);
Datum wasm_contains(PG_FUNCTION_ARGS)
{
    POLYGON *polygon = PG_GETARG_POLYGON_P(0);
    Room room = enter();
    u32 point = put(&room, PG_GETARG_POINT_P(1), sizeof(Point));

    CATCH();
    PG_RETURN_BOOL(Z_polygonsZ_poly_contains(&instance, PUT_POLYGON(&room, polygon), point));
}

PG_FUNCTION_INFO_V1(wasm_within);
Datum wasm_within(PG_FUNCTION_ARGS)
{
    POLYGON *polygon = PG_GETARG_POLYGON_P(0);
    Room room = enter();
    u32 center = put(&room, PG_GETARG_POINT_P(1), sizeof(Point));

    CATCH();
    PG_RETURN_BOOL(Z_polygonsZ_poly_within(&instance, PUT_POLYGON(&room, polygon), center, PG_GETARG_FLOAT8(2)));
}

PG_FUNCTION_INFO_V1(wasm_overlaps);
Datum wasm_overlaps(PG_FUNCTION_ARGS)
{
    POLYGON *polygon = PG_GETARG_POLYGON_P(0);
    Room room = enter();
    u32 box = put(&room, PG_GETARG_BOX_P(1), sizeof(BOX));

    CATCH();
    PG_RETURN_BOOL(Z_polygonsZ_poly_overlaps(&instance, PUT_POLYGON(&room, polygon), box));
}

PG_FUNCTION_INFO_V1(wasm_square);
Datum wasm_square(PG_FUNCTION_ARGS)
{
    BOX *box = palloc(sizeof *box);
    Room room = enter();
    u32 center = put(&room, PG_GETARG_POINT_P(0), sizeof(Point)), at;

    CATCH();
    at = Z_polygonsZ_poly_square(&instance, center, PG_GETARG_FLOAT8(1));
    if (at > room.memory->size - sizeof *box) elog(ERROR, "a result that is not in the memory");
    memcpy(box, room.memory->data + at, sizeof *box);
    PG_RETURN_BOX_P(box);
}
