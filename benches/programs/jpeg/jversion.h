/* Texts that the library's own build would generate. */
#define JVERSION "6b"
#define JCOPYRIGHT ""
#define JCOPYRIGHT_SHORT ""
