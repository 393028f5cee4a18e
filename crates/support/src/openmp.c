/* Functions that gcc's library for OpenMP needs and musl does not have. */
#include <stddef.h>

long sysconf(int);
long __sysconf(int name) { return sysconf(name); }

/* A domain's threads run on any processor. The library ignores the error. */
int pthread_attr_setaffinity_np(void *attributes, size_t size, const void *processors) {
    enum { ENOSYS = 38 };
    (void)attributes, (void)size, (void)processors;
    return ENOSYS;
}
