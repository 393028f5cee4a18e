/* Calls of a small function by a host in C. Makes a round for each line that it reads, and prints a
 * line: the time of a call in nanoseconds, for each way. */
#include <sfi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 20000, WAYS = 5 };

/* A world with its function. */
struct target {
    sfi_world *world;
    sfi_prepared *add;
    sfi_function *function;
};

static sfi_error *error;

static void check(sfi_status status)
{
    if (status == SFI_OK) return;
    fprintf(stderr, "calls: %s\n", sfi_error_message(error));
    exit(1);
}

static struct target opened(sfi_config *config)
{
    struct target target;
    const char *signature = "(int, int) -> int";

    check(sfi_world_open("domains.toml", config, &target.world, &error));
    check(sfi_prepare(target.world, "plugin", "add", signature, &target.add, &error));
    check(sfi_function_find(target.world, "plugin", "add", signature, &target.function, &error));
    return target;
}

static int native_add(int a, int b) { return a + b; }
static int (*volatile add)(int, int) = native_add;

static void native(struct target *target)
{
    (void)target;
    for (int i = 0; i < CALLS; i++)
        if (add(i, 1) != i + 1) exit(1);
}

static void prepared(struct target *target)
{
    for (int i = 0; i < CALLS; i++) {
        sfi_value result, arguments[] = {sfi_i(i), sfi_i(1)};

        check(sfi_prepared_call(target->world, target->add, arguments, &result, &error));
        if (result.i != i + 1) exit(1);
    }
}

static void with_room(struct target *target)
{
    for (int i = 0; i < CALLS; i++) {
        sfi_value result, arguments[] = {sfi_i(i), sfi_i(1)};
        void *room;

        check(sfi_prepared_room(target->world, target->add, 16, &room, &error));
        memcpy(room, arguments, 16);
        check(sfi_prepared_call(target->world, target->add, arguments, &result, &error));
        if (result.i != i + 1) exit(1);
    }
}

static void found(struct target *target)
{
    for (int i = 0; i < CALLS; i++) {
        sfi_value result, arguments[] = {sfi_i(i), sfi_i(1)};

        check(sfi_call(target->world, target->function, arguments, 2, NULL, &result, &error));
        if (result.i != i + 1) exit(1);
    }
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(void)
{
    void (*ways[WAYS])(struct target *) = {native, prepared, prepared, with_room, found};
    sfi_config *config = sfi_config_new();
    struct target any = opened(NULL), one;

    check(sfi_config_one_thread(config, &error));
    one = opened(config);
    while (getchar() != EOF) {
        for (int way = 0; way < WAYS; way++) {
            double start = now();

            ways[way](way == 2 ? &one : &any);
            printf("%.2f%c", (now() - start) / CALLS, way == WAYS - 1 ? '\n' : ' ');
        }
        fflush(stdout);
    }
    return 0;
}
