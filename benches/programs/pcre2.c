#include "bench.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
unsigned long work(void) {
    static unsigned char prose[40000];
    static const char *const patterns[] = {"([a-z]+)ion\\b", "(?i)\\b(the|of|and) (\\w+) ", "(\\w+), (\\w+)\\.|fault.*?stack", "[^aeiou\\s]{3,}[aeiou]+\\w*", "(?<=domain )\\w+(?= )"};
    unsigned long sum = 0;
    text(prose, sizeof prose);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        int error;
        PCRE2_SIZE at = 0, place;
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)patterns[i], PCRE2_ZERO_TERMINATED, 0, &error, &place, NULL);
        if (!code) puts("no pattern"), exit(1);
        pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
        while (pcre2_match(code, prose, sizeof prose, at, 0, match, NULL) > 0) {
            PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
            sum = sum * 31 + found[0] + found[1];
            at = found[1] > at ? found[1] : at + 1;
        }
        pcre2_match_data_free(match);
        pcre2_code_free(code);
    }
    return sum;
}
