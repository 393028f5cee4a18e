/* Finite state machines over many globals: each step loads and stores static variables. */
#include "bench.h"
static unsigned state_a, state_b, state_c, count_words, count_lines, count_numbers, count_strings, depth, most, hash, value,
    escaped, comments, last, changes, ticks;
static void step(unsigned c) {
    ticks++;
    switch (state_a) {
    case 0:
        if (c >= 'a') state_a = 1, count_words++, hash = c;
        else if (c == '"') state_a = 3, count_strings++;
        else if (c >= '0') state_a = 2, value = c - '0', count_numbers++;
        else if (c == '(') depth++, most = depth > most ? depth : most;
        else if (c == ')') depth -= depth > 0;
        else if (c == '\n') count_lines++;
        else if (c == '#') state_a = 4, comments++;
        break;
    case 1:
        if (c >= 'a') hash = hash * 31 + c;
        else state_a = 0, state_b = (state_b + hash) % 7;
        break;
    case 2:
        if (c >= '0' && c <= '9') value = value * 10 + c - '0';
        else state_a = 0, state_c ^= value;
        break;
    case 3:
        if (escaped) escaped = 0;
        else if (c == '\\') escaped = 1;
        else if (c == '"') state_a = 0;
        break;
    default:
        if (c == '\n') state_a = 0, count_lines++;
    }
    if (state_b != last) last = state_b, changes++;
}
unsigned long work(void) {
    static const char line[] = "while (count < 1000) { emit(\"text \\\" more\", 42); next = (next + 17) % size; } # note\n";
    for (unsigned i = 0; i < 20000; i++) step((unsigned char)line[(i + (i >> 8)) % (sizeof line - 1)]);
    return count_words + count_lines * 3 + count_numbers * 5 + count_strings * 7 + most + state_c + changes * 11 + comments + ticks;
}
