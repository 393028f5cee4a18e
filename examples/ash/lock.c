/* Control initiation: locks of a distributed shared memory. A free lock is granted at once. A
 * message for a lock that somebody holds is left to the application: the handler aborts.
 * Message: 4 bytes lock, 4 bytes 1 to take it or 0 to give it back. Answer: the lock. */
#include "ash.h"

#define LOCKS 64

struct state {
    unsigned requests;
    unsigned char held[LOCKS];
};

struct request {
    unsigned lock, take;
};

static struct state *state(void)
{
    return (struct state *)ash_state;
}

static int examine(struct ash_message *m)
{
    state()->requests++;
    return m->length - m->payload == sizeof(struct request);
}

static int commit(struct ash_message *m)
{
    struct request request;
    __builtin_memcpy(&request, m->bytes + m->payload, sizeof request);
    if (request.lock >= LOCKS || state()->held[request.lock] == request.take)
        return -1;
    state()->held[request.lock] = request.take != 0;
    if (!request.take)
        return ash_wake(request.lock);
    return ash_reply(&request.lock, sizeof request.lock);
}

/* The abort code: mends what the first part changed. */
static void abandon(struct ash_message *m)
{
    (void)m;
    state()->requests--;
}

ASH_HANDLER(examine, commit, abandon)
