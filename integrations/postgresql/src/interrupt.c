/* The end of calls that take too long: cancel requests, statement_timeout, shutdown, and
 * sfi.time_limit.
 *
 * The server's signal handlers only set flags, which a domain does not look at. Handlers around
 * them look after them, and end the call in progress if the backend must do something else. A timer
 * of the backend repeats that, because a signal may arrive in the few instructions of a gate. */
#include "pgsfi.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* Time between two looks, milliseconds. */
#define TICK 20

static const int signals[] = {SIGINT, SIGTERM, SIGALRM, SIGUSR1};
static struct sigaction previous[NSIG];
static bool installed;

static TimeoutId timer;

/* The calls in progress, the number of the outermost one, and the timer's view of it. */
Progress pgsfi_progress;
static volatile uint64 seen;
static volatile uint64 ticks;

static void on_tick(void)
{
    if (pgsfi_progress.depth == 0 || pgsfi_progress.number != seen) {
        seen = pgsfi_progress.number;
        ticks = 0;
        return;
    }
    ticks++;
    if (pgsfi_time_limit > 0 && ticks * TICK >= (uint64) pgsfi_time_limit) pgsfi_progress.overtime = 1;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int saved = errno;

    if (previous[signal].sa_flags & SA_SIGINFO)
        previous[signal].sa_sigaction(signal, info, context);
    else if (previous[signal].sa_handler != SIG_IGN && previous[signal].sa_handler != SIG_DFL)
        previous[signal].sa_handler(signal);
    if (pgsfi_progress.depth > 0 && (QueryCancelPending || ProcDiePending || pgsfi_progress.overtime)) (void) sfi_interrupt(context);
    errno = saved;
}

/* The timer must not fire between transactions. */
static void at_end(XactEvent event, void *unused)
{
    if (pgsfi_progress.ticking && event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PARALLEL_PRE_COMMIT &&
        event != XACT_EVENT_PRE_PREPARE) {
        pgsfi_progress.ticking = false;
        disable_timeout(timer, false);
        pgsfi_tell();
    }
}

static void install(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < lengthof(signals); i++) {
        sigaction(signals[i], NULL, &previous[signals[i]]);
        if (previous[signals[i]].sa_handler != SIG_DFL) sigaction(signals[i], &action, NULL);
    }
    timer = RegisterTimeout(USER_TIMEOUT, on_tick);
    RegisterXactCallback(at_end, NULL);
    installed = true;
}

void pgsfi_tick(void)
{
    if (!installed) install();
    enable_timeout_every(timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), TICK), TICK);
    pgsfi_progress.ticking = true;
}

void pgsfi_check_interrupted(void)
{
    CHECK_FOR_INTERRUPTS();
    if (pgsfi_progress.overtime) {
        pgsfi_progress.overtime = 0;
        ereport(ERROR, (errcode(ERRCODE_QUERY_CANCELED), errmsg("canceling function due to sfi.time_limit")));
    }
    /* The server looks at requests later, because an index holds the lock of a page. */
    if (QueryCancelPending || ProcDiePending)
        ereport(ERROR, (errcode(ERRCODE_QUERY_CANCELED), errmsg("canceling function due to a request or a timeout")));
}
