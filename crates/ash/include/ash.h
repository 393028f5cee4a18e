/* Handlers of messages that run in the receive path, in a domain of sfi.
 *
 * A handler looks at a message, manipulates data, and then commits or aborts:
 *
 *     #include "ash.h"
 *     static unsigned long *const counter = (unsigned long *)ash_state;
 *     static int examine(struct ash_message *m)  { return m->length - m->payload >= 8; }
 *     static int commit(struct ash_message *m)   { ++*counter; return ash_reply(counter, 8); }
 *     static void abandon(struct ash_message *m) { (void)m; }
 *     ASH_HANDLER(examine, commit, abandon)
 *
 * Messages are Ethernet frames in memory that is read-only here. Frames that a handler sends and
 * wakes that it asks for happen when it commits, and never otherwise. After a fault, or when the
 * handler runs too long, its state and its segment are as before the message, its other memory but
 * for the buffer is as when it was loaded, and the message goes the normal way.
 */
#ifndef SFI_ASH_H
#define SFI_ASH_H

#ifdef __cplusplus
extern "C" {
#endif

/* Results of ash_handle. Any other result aborts, too. */
#define ASH_COMMIT 0
#define ASH_ABORT 1

/* A message. */
struct ash_message {
    const unsigned char *bytes; /* the frame */
    unsigned length;            /* of the frame, without padding after an IP packet */
    unsigned payload;           /* offset of the innermost payload */
};

/* The entry point, which ASH_HANDLER defines. */
int ash_handle(const unsigned char *bytes, unsigned length, unsigned payload);

/* The state, if the manifest gives one: copied before each message, so keep it small. */
extern unsigned char ash_state[], ash_state_end[];
/* The segment, if the manifest gives one: of any size, and read-only but for the trusted calls. */
extern const unsigned char ash_segment[], ash_segment_end[];
/* The buffer, if the manifest gives one: the handler and the application write it at any time, and
 * no abort restores it. Let the state say which bytes of it count. */
extern unsigned char ash_buffer[], ash_buffer_end[];

/* Trusted calls return 0, or -1 without any effect. */

/* Copies `length` bytes of the message, from `offset` on, to memory or to the segment. */
int ash_copy(const void *destination, unsigned offset, unsigned length);
/* Sends an answer: the content of a datagram after UDP, of the packet after other protocols of IP,
 * and otherwise of the frame. The engine writes the headers. */
int ash_reply(const void *data, unsigned length);
/* Sends a datagram to a destination of the manifest, by its number from 0 on. */
int ash_send(unsigned destination, const void *data, unsigned length);
/* Wakes the application. */
int ash_wake(unsigned value);

/* Copies `length` bytes of the handler's memory to its segment. */
int ash_store(const void *destination, const void *data, unsigned length);

/* Passes `length` bytes of the message, from `offset` on, through the loop `pipe` of the manifest,
 * by its number from 0 on, to memory, state, buffer or segment. `registers` are those of the loop's
 * pipes, in order. Returns the number of bytes that were stored, or -1 if the message does not have
 * the bytes, the manifest not the loop, or the segment not the room. The loop runs in the handler's
 * domain, and costs no crossing. For the segment alone it stores to `ash_loop`, which one ash_store
 * copies. */
unsigned long dilp_run(unsigned long pipe, void *destination, const void *source, unsigned long length,
                       unsigned long *registers);
/* Handlers with loops and a segment have them. */
extern unsigned char ash_loop[] __attribute__((weak));
extern const unsigned char ash_segment_or_null[] __asm__("ash_segment") __attribute__((weak));
extern const unsigned char ash_segment_end_or_null[] __asm__("ash_segment_end") __attribute__((weak));
static inline unsigned long ash_ilp(const struct ash_message *message, unsigned pipe, const void *destination,
                                    unsigned offset, unsigned length, unsigned long *registers)
{
    const unsigned char *to = (const unsigned char *)destination;
    unsigned long stored;
    if (offset > message->length || length > message->length - offset)
        return -1ul;
    if (to < ash_segment_or_null || to >= ash_segment_end_or_null)
        return dilp_run(pipe, (void *)to, message->bytes + offset, length, registers);
    stored = dilp_run(pipe, ash_loop, message->bytes + offset, length, registers);
    if (stored == -1ul || ash_store(to, ash_loop, (unsigned)stored))
        return -1ul;
    return stored;
}

/* Defines a handler of three parts. `examine` returns whether the handler takes the message,
 * and `commit` returns 0 if all went well. Otherwise `abandon` mends what they changed. */
#define ASH_HANDLER(examine, commit, abandon)                                                \
    int ash_handle(const unsigned char *bytes, unsigned length, unsigned payload)            \
    {                                                                                        \
        struct ash_message message = {bytes, length, payload};                               \
        if (examine(&message) && commit(&message) == 0)                                      \
            return ASH_COMMIT;                                                               \
        abandon(&message);                                                                   \
        return ASH_ABORT;                                                                    \
    }

#ifdef __cplusplus
}
#endif
#endif
