#include "bench.h"
static __attribute__((noinline)) unsigned long fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
unsigned long work(void) { return fib(33); }
