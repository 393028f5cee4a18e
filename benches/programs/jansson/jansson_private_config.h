/* Nothing more than the other header says. */
#define HAVE_STDINT_H 1
