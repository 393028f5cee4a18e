/* Loads a plugin, calls it, survives its crash, restarts it and calls it again. */
#include <sfi.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the host if a status is an error. */
static void check(sfi_status status, sfi_error *error)
{
    if (status == SFI_OK) return;
    fprintf(stderr, "host: %s\n", sfi_error_message(error));
    exit(1);
}

/* The plugin's only way out. sfi_host_read checks the range, because the plugin chooses it. */
static sfi_status log_text(void *user, sfi_host_call *call, sfi_value *result)
{
    char text[80];
    uint64_t pointer = sfi_host_argument(call, 0), length = sfi_host_argument(call, 1);

    (void)user, (void)result;
    if (length > sizeof text || sfi_host_read(call, pointer, text, length, NULL) != SFI_OK) return SFI_HOST;
    printf("the plugin says: %.*s\n", (int)length, text);
    return SFI_OK;
}

int main(void)
{
    sfi_config *config = sfi_config_new();
    sfi_function *add, *crash;
    sfi_value numbers[] = {sfi_i(2), sfi_i(40)}, null = sfi_u(0), result;
    sfi_world *world;
    sfi_error *error;

    /* Verifies, links, places, verifies again and seals. */
    check(sfi_config_function(config, "log", log_text, NULL, &error), error);
    check(sfi_world_open("domains.toml", config, &world, &error), error);
    check(sfi_function_find(world, "plugin", "add", "(int, int) -> int", &add, &error), error);
    check(sfi_function_find(world, "plugin", "crash", "(int) -> int", &crash, &error), error);

    check(sfi_call(world, add, numbers, 2, NULL, &result, &error), error);
    printf("add returned %lld\n", (long long)result.i);

    /* A fault ends the call, not the process. The domain is dead until it is restarted. */
    if (sfi_call(world, crash, &null, 1, NULL, &result, &error) != SFI_FAULT) return 1;
    printf("crash failed: %s\n", sfi_error_message(error));
    sfi_error_free(error);
    check(sfi_world_restart(world, "plugin", &error), error);
    check(sfi_call(world, add, numbers, 2, NULL, &result, &error), error);
    printf("after the restart add returned %lld\n", (long long)result.i);

    sfi_function_free(crash);
    sfi_function_free(add);
    check(sfi_world_close(world, &error), error);
    sfi_config_free(config);
    return 0;
}
