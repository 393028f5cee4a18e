/* Modules have no environment, and ask their host for none. */
char *getenv(const char *name) { return 0; }
