/* The header that pcre2's own build would generate. */
#include "pcre2.h.generic"
