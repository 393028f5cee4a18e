#include "bench.h"
#include <jansson.h>
unsigned long work(void) {
    static char document[1 << 17];
    size_t size = 0;
    unsigned long sum = 0;
    json_object_seed(7);
    size += (size_t)sprintf(document, "[");
    for (int i = 0; i < 900; i++)
        size += (size_t)sprintf(document + size, "%s{\"id\": %d, \"name\": \"item \\u00e9 %d\", \"price\": %d.25, \"tags\": [\"a\", \"b%d\", null, true], \"at\": {\"x\": %d, \"y\": -%d}}", i ? ", " : "", i, i * 7, i * 3, i % 10, i, i * 2);
    size += (size_t)sprintf(document + size, "]");
    json_error_t error;
    json_t *root = json_loadb(document, size, 0, &error);
    if (!root) puts(error.text), exit(1);
    for (size_t i = 0; i < json_array_size(root); i++) {
        json_t *item = json_array_get(root, i);
        sum = sum * 31 + (unsigned long)json_integer_value(json_object_get(item, "id"));
        json_object_set_new(item, "sum", json_integer((json_int_t)(sum & 0xffff)));
    }
    char *printed = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    sum = sum * 31 + sum_of((unsigned char *)printed, strlen(printed));
    free(printed);
    json_decref(root);
    return sum;
}
