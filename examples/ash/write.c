/* A write from afar into the segment, which the application maps.
 * Message: 4 bytes offset, 4 bytes length, then the data. Answer: the first 8 bytes again. */
#include "ash.h"

struct request {
    unsigned offset, length;
};

static int examine(struct ash_message *m)
{
    return m->length - m->payload >= sizeof(struct request);
}

static int commit(struct ash_message *m)
{
    struct request request;
    unsigned long size = ash_segment_end - ash_segment;
    __builtin_memcpy(&request, m->bytes + m->payload, sizeof request);
    if (request.offset > size || request.length > size - request.offset)
        return -1;
    if (ash_copy(ash_segment + request.offset, m->payload + sizeof request, request.length))
        return -1;
    return ash_reply(&request, sizeof request);
}

static void abandon(struct ash_message *m)
{
    (void)m;
}

ASH_HANDLER(examine, commit, abandon)
