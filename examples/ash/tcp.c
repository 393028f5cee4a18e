/* The fast path of a TCP receiver: segments that are predicted go into the application's buffer, by
 * one loop that copies and sums, and every second one is acknowledged. All others go to the
 * application's own TCP, which keeps the block below. It clears `live` while it is behind, or while
 * the connection is not open. */
#include "ash.h"

/* The connection, in the state. Numbers have the processor's order of bytes, addresses and ports
 * that of the network. */
struct block {
    unsigned live;         /* the handler may take segments */
    unsigned expected;     /* sequence number of the next byte */
    unsigned first;        /* oldest byte of ours that is not acknowledged */
    unsigned most;         /* the byte after the last one that we sent */
    unsigned window;       /* of the sender */
    unsigned owed;         /* segments that are not acknowledged */
    unsigned edge;         /* the byte after the window that we offered */
    unsigned peer, own;    /* addresses */
    unsigned ports;        /* of the sender, then ours */
    unsigned size;         /* bytes of the ring, a power of two */
    unsigned unused;
    unsigned long arrived; /* bytes in order, since the beginning */
};

/* The application's words, at the beginning of the buffer. The ring of bytes lies at RING. */
struct words {
    unsigned long taken;  /* bytes that the application took */
    unsigned long wanted; /* wake it once so many wait */
};

#define RING 4096
#define COPY_AND_SUM 0
#define PAYLOAD 54 /* headers of Ethernet, IP and TCP without options */
#define ACK 0x10
#define PUSH 0x08
enum { WAKE_DATA = 1, WAKE_SENT = 2 };

static struct block *const block = (struct block *)ash_state;
static volatile struct words *const words = (struct words *)ash_buffer;

static unsigned word(const unsigned char *bytes)
{
    unsigned value;
    __builtin_memcpy(&value, bytes, sizeof value);
    return value;
}

static unsigned swapped(const unsigned char *bytes)
{
    return __builtin_bswap32(word(bytes));
}

/* The sum of `count` words of 32 bits, and of `more`, as 16 bits. */
static unsigned sum(const unsigned char *bytes, unsigned count, unsigned long more)
{
    while (count--)
        more += word(bytes + 4 * count);
    more = (more & 0xffffffff) + (more >> 32);
    more = (more & 0xffff) + (more >> 16 & 0xffff) + (more >> 32);
    more = (more & 0xffff) + (more >> 16);
    return (more & 0xffff) + (more >> 16);
}

/* The sum of the addresses, the protocol, and the length of a segment. */
static unsigned long pseudo(unsigned length)
{
    return (unsigned long)block->peer + block->own + 0x0600 + __builtin_bswap16(length);
}

static unsigned long room(void)
{
    return block->size - (block->arrived - words->taken);
}

static int examine(struct ash_message *m)
{
    const unsigned char *ip = m->bytes + 14, *tcp = ip + 20;
    return block->live && m->payload == PAYLOAD && word(ip + 12) == block->peer && word(ip + 16) == block->own &&
           word(tcp) == block->ports && swapped(tcp + 4) == block->expected && tcp[12] == 0x50 &&
           (tcp[13] & ~PUSH) == ACK && swapped(tcp + 8) - block->first <= block->most - block->first &&
           (m->length > PAYLOAD || swapped(tcp + 8) != block->first) && m->length - PAYLOAD <= room() &&
           sum(ip, 5, 0) == 0xffff;
}

/* Passes the data into the ring, and returns its sum. */
static unsigned long take(struct ash_message *m, unsigned length)
{
    unsigned to = block->arrived & (block->size - 1), part = block->size - to;
    unsigned long sums[2] = {0, 0};
    if (part > length)
        part = length;
    ash_ilp(m, COPY_AND_SUM, ash_buffer + RING + to, PAYLOAD, part, &sums[0]);
    if (part < length)
        ash_ilp(m, COPY_AND_SUM, ash_buffer + RING, PAYLOAD + part, length - part, &sums[1]);
    /* The words of a part after an odd number of bytes are turned round. */
    return sums[0] + (part & 1 ? __builtin_bswap16(sums[1]) : sums[1]);
}

static int acknowledge(unsigned expected, unsigned long window)
{
    struct __attribute__((packed)) {
        unsigned ports, sequence, acknowledged;
        unsigned char offset, flags;
        unsigned short window, checksum, urgent;
    } segment = {block->ports << 16 | block->ports >> 16, __builtin_bswap32(block->most), __builtin_bswap32(expected),
                 0x50, ACK, __builtin_bswap16(window), 0, 0};
    segment.checksum = ~sum((unsigned char *)&segment, 5, pseudo(sizeof segment));
    return ash_reply(&segment, sizeof segment);
}

static int commit(struct ash_message *m)
{
    const unsigned char *tcp = m->bytes + 34;
    unsigned length = m->length - PAYLOAD, acknowledged = swapped(tcp + 8), answers = length && block->owed;
    unsigned long window = room() - length, taken = words->taken, wanted = words->wanted;
    if (sum(tcp, 5, take(m, length) + pseudo(20 + length)) != 0xffff)
        return -1;
    if (window > 0xffff)
        window = 0xffff;
    if (answers && acknowledge(block->expected + length, window))
        return -1;
    if (wanted && block->arrived + length - taken >= wanted)
        ash_wake(WAKE_DATA);
    else if (acknowledged != block->first)
        ash_wake(WAKE_SENT);
    block->window = tcp[14] << 8 | tcp[15];
    block->first = acknowledged;
    block->expected += length;
    block->arrived += length;
    block->owed = answers ? 0 : block->owed + (length > 0);
    if (answers)
        block->edge = block->expected + window;
    return 0;
}

static void abandon(struct ash_message *m)
{
    (void)m;
}

ASH_HANDLER(examine, commit, abandon)
