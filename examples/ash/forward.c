/* Message initiation: an answer to the sender, and a copy to the next station of the manifest.
 * Message: any datagram. Answer: its length. */
#include "ash.h"

static unsigned char data[1024];

static int examine(struct ash_message *m)
{
    return m->length - m->payload <= sizeof data;
}

static int commit(struct ash_message *m)
{
    unsigned length = m->length - m->payload;
    if (ash_copy(data, m->payload, length) || ash_send(0, data, length))
        return -1;
    return ash_reply(&length, sizeof length);
}

static void abandon(struct ash_message *m)
{
    (void)m;
}

ASH_HANDLER(examine, commit, abandon)
