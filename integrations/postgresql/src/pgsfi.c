/* The module: its settings. */
#include "pgsfi.h"

#include "utils/guc.h"
#include "utils/guc_tables.h"

PG_MODULE_MAGIC;

enum { MODE_WRITE, MODE_FULL };

int pgsfi_mode = MODE_FULL;
int pgsfi_memory = 64 * 1024;
int pgsfi_stack = 8 * 1024;
int pgsfi_time_limit = 0;
bool pgsfi_timing = false;
int pgsfi_batch = 0;
int pgsfi_penalty = 0;
int pgsfi_penalty_limit = 60 * 60 * 1000;
char *pgsfi_directories;
char *pgsfi_command;

static const struct config_enum_entry modes[] = {
    {"write", MODE_WRITE, false},
    {"full", MODE_FULL, false},
    {NULL, 0, false},
};

const char *pgsfi_mode_name(void)
{
    return modes[pgsfi_mode].name;
}

/* PostgreSQL 15's compiler of expressions takes the input and output functions of types for
 * functions in C, and ends the server otherwise (EEOP_IOCOERCE in llvmjit_expr.c). So such
 * functions run only where the server's configuration has jit = off, and there no session turns it
 * on. */
static struct config_bool *jit;
static GucBoolCheckHook previous_check;

static bool is_off(void)
{
    return jit && !jit->reset_val && jit->gen.reset_source < PGC_S_GLOBAL;
}

static bool check_jit(bool *value, void **extra, GucSource source)
{
    if (*value && source >= PGC_S_GLOBAL && is_off()) {
        GUC_check_errmsg("\"jit\" stays off");
        GUC_check_errdetail("PostgreSQL's compiler of expressions cannot call functions of types in LANGUAGE sfi.");
        return false;
    }
    return !previous_check || previous_check(value, extra, source);
}

bool pgsfi_compiler_is_off(void)
{
    return is_off() && pgsfi_is_shared();
}

static void keep_compiler_off(void)
{
    struct config_generic **all = get_guc_variables();

    for (int i = 0; i < GetNumConfigOptions(); i++)
        if (strcmp(all[i]->name, "jit") == 0 && all[i]->vartype == PGC_BOOL) jit = (struct config_bool *) all[i];
    if (!jit) return;
    previous_check = jit->check_hook;
    jit->check_hook = check_jit;
}

void _PG_init(void);

void _PG_init(void)
{
    DefineCustomEnumVariable("sfi.mode", "Mode in which libraries are rewritten when they are installed.",
                             "With full, libraries of mode write are not loaded. Code of mode write can read the server's memory.",
                             &pgsfi_mode, MODE_FULL, modes,
                             PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomIntVariable("sfi.memory", "Heap of a library for one role, in one backend.", NULL, &pgsfi_memory,
                            64 * 1024, 64, 2 * 1024 * 1024, PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
    DefineCustomIntVariable("sfi.stack", "Stack of a library. It holds the arguments of calls too.", NULL,
                            &pgsfi_stack, 8 * 1024, 64, 1024 * 1024, PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
    DefineCustomIntVariable("sfi.time_limit", "Longest time of one call. 0 is no limit.", NULL, &pgsfi_time_limit, 0,
                            0, INT_MAX, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
    DefineCustomBoolVariable("sfi.timing", "Measures the time of calls for sfi.stats.", NULL, &pgsfi_timing, false, PGC_SUSET, 0,
                             NULL, NULL, NULL);
    DefineCustomIntVariable("sfi.batch", "Most rows for which a filter calls a function at once. 0 and 1 are one by one.", NULL,
                            &pgsfi_batch, 0, 0, 256, PGC_USERSET, 0, NULL, NULL, NULL);
    DefineCustomIntVariable("sfi.penalty", "Time for which the libraries of a role do not run after a fault, twice as long for each further one.",
                            "0 is no penalty.", &pgsfi_penalty, 0, 0, INT_MAX / 2, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
    DefineCustomIntVariable("sfi.penalty_limit", "Longest penalty.", NULL, &pgsfi_penalty_limit, 60 * 60 * 1000, 0,
                            INT_MAX, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
    DefineCustomStringVariable("sfi.directories", "Folders with objects, with colons between them.", NULL,
                               &pgsfi_directories, "", PGC_SUSET, 0, NULL, NULL, NULL);
    DefineCustomStringVariable("sfi.command", "Path of the program sfi, which rewrites objects.", NULL, &pgsfi_command,
                               SFI_COMMAND, PGC_SUSET, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
    MarkGUCPrefixReserved("sfi");
    keep_compiler_off();
    pgsfi_shared_init();
    pgsfi_batch_init();
}
