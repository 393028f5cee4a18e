/* What the library's own build would find out. */
#define BUILD "bench"
#define PACKAGE_NAME "libjpeg-turbo"
#define VERSION "2.1.5"
#define INLINE inline __attribute__((always_inline))
#define THREAD_LOCAL
#define FALLTHROUGH __attribute__((fallthrough));
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define HAVE_BUILTIN_CTZL 1
