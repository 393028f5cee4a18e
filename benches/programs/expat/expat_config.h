/* What expat's own build would find out. The salt of its hashes is chosen by the benchmark. */
#define XML_POOR_ENTROPY 1
#define XML_CONTEXT_BYTES 1024
#define XML_NS 1
#define XML_DTD 1
#define HAVE_MEMMOVE 1
#define BYTEORDER 1234
