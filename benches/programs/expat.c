#include "bench.h"
#include <expat.h>
static unsigned long sum;
static void start(void *data, const XML_Char *name, const XML_Char **attributes) {
    for (; *name; name++) sum = sum * 31 + (unsigned char)*name;
    for (; *attributes; attributes++) sum += (unsigned char)**attributes;
}
static void end(void *data, const XML_Char *name) { sum = sum * 33 + (unsigned char)*name; }
static void words(void *data, const XML_Char *text, int size) { for (int i = 0; i < size; i++) sum += (unsigned char)text[i]; }
unsigned long work(void) {
    static char document[1 << 17];
    size_t size = (size_t)sprintf(document, "<?xml version=\"1.0\"?><list>");
    for (int i = 0; i < 1200; i++)
        size += (size_t)sprintf(document + size, "<item id=\"%d\" kind='k%d'><name>item &amp; %d</name><!-- note --><price>%d.5</price></item>\n", i, i % 7, i * 3, i);
    size += (size_t)sprintf(document + size, "</list>");
    sum = 0;
    XML_Parser parser = XML_ParserCreate(NULL);
    XML_SetHashSalt(parser, 7);
    XML_SetElementHandler(parser, start, end);
    XML_SetCharacterDataHandler(parser, words);
    if (XML_Parse(parser, document, (int)size, 1) != XML_STATUS_OK) puts("no document"), exit(1);
    XML_ParserFree(parser);
    return sum;
}
