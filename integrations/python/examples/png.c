/* A codec for a domain: stock libpng, and one function that a host calls. */
#include <png.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Debian's libpng was compiled for glibc. These two functions musl does not have. */
void *__memcpy_chk(void *to, const void *from, size_t size, size_t room)
{
    if (size > room)
        __builtin_trap();
    return memcpy(to, from, size);
}

int __fprintf_chk(FILE *file, int flag, const char *format, ...)
{
    va_list arguments;
    (void)flag;
    va_start(arguments, format);
    int written = vfprintf(file, format, arguments);
    va_end(arguments);
    return written;
}

/* Decodes to RGBA. `size` gets width and height. Returns 1, or 0 for a file that is no PNG or needs
   more than `room` bytes. */
int decode(const unsigned char *file, unsigned long length, unsigned char *pixels, unsigned long room,
           unsigned int size[2])
{
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image, file, length))
        return 0;
    image.format = PNG_FORMAT_RGBA;
    size[0] = image.width;
    size[1] = image.height;
    if (PNG_IMAGE_SIZE(image) > room) {
        png_image_free(&image);
        return 0;
    }
    return png_image_finish_read(&image, NULL, pixels, 0, NULL);
}

/* What an attacker makes of a mistake in a codec: writes where the file says. */
int exploit(unsigned long address)
{
    *(volatile int *)address = 42;
    return 0;
}
