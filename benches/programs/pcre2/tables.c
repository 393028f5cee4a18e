/* The tables of characters that pcre2's own build would copy. */
#include "pcre2_chartables.c.dist"
