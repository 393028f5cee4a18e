/* A function that opens pages whose protection keys are closed. */
void refused(void) { __asm__ volatile("wrpkru" : : "a"(0), "c"(0), "d"(0)); }
