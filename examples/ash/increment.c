/* Control initiation: an increment from afar (an active message).
 * Message: 8 bytes, the number to add. Answer: 8 bytes, the sum. */
#include "ash.h"

static unsigned long number(const unsigned char *bytes)
{
    unsigned long value;
    __builtin_memcpy(&value, bytes, sizeof value);
    return value;
}

static int examine(struct ash_message *m)
{
    return m->length - m->payload == 8;
}

static int commit(struct ash_message *m)
{
    unsigned long *counter = (unsigned long *)ash_state;
    *counter += number(m->bytes + m->payload);
    return ash_reply(counter, sizeof *counter);
}

static void abandon(struct ash_message *m)
{
    (void)m;
}

ASH_HANDLER(examine, commit, abandon)
