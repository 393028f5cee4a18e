/* dlopen and its like: code of the domain, without any trust. The loader links the libraries that
 * the domain's specification grants by name, and a handle is the loader's number. So a mistake here
 * harms only the program itself.
 *
 * Compiled when a program that names one of these functions is linked. The libc's functions of
 * these names are not linked then. */
#include <stddef.h>
#include <stdint.h>

int64_t __sfi_library_open(const char *name, int flags);
void *__sfi_library_symbol(int64_t handle, const char *name);
int64_t __sfi_library_close(int64_t handle);

/* The error that dlerror has not told yet. */
static char *error_;

static void *no_handle(void) {
    error_ = "no such library is granted, or it cannot be linked";
    return NULL;
}

void *dlopen(const char *name, int flags) {
    int64_t handle = __sfi_library_open(name, flags);
    /* A name with directories means the library of the last part. */
    const char *last = NULL;
    for (const char *at = name; at && *at; at++)
        if (*at == '/') last = at + 1;
    if (handle < 0 && last) handle = __sfi_library_open(last, flags);
    return handle < 0 ? no_handle() : (void *)handle;
}

void *dlsym(void *handle, const char *name) {
    int64_t address = (int64_t)__sfi_library_symbol((int64_t)handle, name);
    if (address != 0 && address != -38) return (void *)address;
    error_ = "no such symbol";
    return NULL;
}

int dlclose(void *handle) {
    if (__sfi_library_close((int64_t)handle) == 0) return 0;
    error_ = "no such handle";
    return -1;
}

char *dlerror(void) {
    char *told = error_;
    error_ = NULL;
    return told;
}
