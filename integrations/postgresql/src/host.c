/* The functions that domains may call. They run on the server's stack, and an error must not jump
 * over the library that called them: it is kept, the call ends, and the error is raised then. */
#include "pgsfi.h"

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

/* Longest line, bytes. */
#define LINE 8192

static ErrorData *failed;

void pgsfi_keep_error(MemoryContext context)
{
    MemoryContextSwitchTo(TopMemoryContext);
    if (!failed) failed = CopyErrorData();
    FlushErrorState();
    MemoryContextSwitchTo(context);
    (void) sfi_interrupt(NULL);
}

void pgsfi_rethrow(void)
{
    ErrorData *error = failed;

    if (error) {
        failed = NULL;
        ReThrowError(error);
    }
}

static sfi_status write_line(sfi_host_call *call, int level, uint64 pointer, uint64 length)
{
    char line[LINE + 1];
    MemoryContext context = CurrentMemoryContext;

    if (pgsfi_progress.instance) pgsfi_progress.instance->counts.asked++;
    if (pgsfi_progress.batch) {
        pgsfi_progress.asked = true;
        return SFI_OK;
    }
    if (length > LINE) length = LINE;
    if (sfi_host_read(call, pointer, line, length, NULL) != SFI_OK) return SFI_HOST;
    line[length] = 0;
    while (length > 0 && line[length - 1] == '\n') line[--length] = 0;
    PG_TRY();
    {

        length = strlen(line);
        if (!pg_verifymbstr(line, length, true)) strlcpy(line, "(a line that is not valid text)", sizeof line);
        ereport(level, (errmsg("%s", line), errhidestmt(true)));
    }
    PG_CATCH();
    {
        pgsfi_keep_error(context);
        return SFI_HOST;
    }
    PG_END_TRY();
    return SFI_OK;
}

static sfi_status log_line(void *user, sfi_host_call *call, sfi_value *result)
{
    static const int levels[] = {DEBUG1, LOG, INFO, NOTICE, WARNING};
    uint64 level = sfi_host_argument(call, 0);

    return write_line(call, level < lengthof(levels) ? levels[level] : NOTICE, sfi_host_argument(call, 1),
                      sfi_host_argument(call, 2));
}

static sfi_status print(void *user, sfi_host_call *call, sfi_value *result)
{
    return write_line(call, DEBUG1, sfi_host_argument(call, 0), sfi_host_argument(call, 1));
}

void pgsfi_offer(sfi_config *config)
{
    sfi_config_interruptible(config, NULL);
    sfi_config_one_thread(config, NULL);
    sfi_config_function(config, "sfi_log", log_line, NULL, NULL);
    sfi_config_function(config, "host_write", print, NULL, NULL);
    pgsfi_offer_queries(config);
    pgsfi_offer_images(config);
}

const char *pgsfi_imports(void)
{
    return "sfi_log = { host = \"sfi_log\", signature = \"(int, ptr, int) -> int\", on_fault = -1 }\n"
           "sfi_query = { host = \"sfi_query\", signature = \"(ptr, int, ptr, int) -> int\", on_fault = -1 }\n"
           "sfi_cell = { host = \"sfi_cell\", signature = \"(int, int, ptr, int) -> int\", on_fault = -2 }\n"
           "host_write = { host = \"host_write\", signature = \"(ptr, int) -> void\" }\n";
}
