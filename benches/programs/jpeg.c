#include "bench.h"
#include <jpeglib.h>
enum { WIDTH = 320, HEIGHT = 240 };
unsigned long work(void) {
    static unsigned char image[HEIGHT][WIDTH * 3];
    struct jpeg_error_mgr errors;
    struct jpeg_compress_struct out = {0};
    struct jpeg_decompress_struct in = {0};
    unsigned char *coded = NULL;
    unsigned long size = 0, sum = 0;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) image[y][3 * x] = (unsigned char)(x ^ y), image[y][3 * x + 1] = (unsigned char)(x * y >> 6), image[y][3 * x + 2] = (unsigned char)(x + y);
    out.err = in.err = jpeg_std_error(&errors);
    jpeg_create_compress(&out);
    jpeg_mem_dest(&out, &coded, &size);
    out.image_width = WIDTH, out.image_height = HEIGHT, out.input_components = 3, out.in_color_space = JCS_RGB;
    jpeg_set_defaults(&out);
    jpeg_set_quality(&out, 80, TRUE);
    jpeg_start_compress(&out, TRUE);
    while (out.next_scanline < HEIGHT) { JSAMPROW row = image[out.next_scanline]; jpeg_write_scanlines(&out, &row, 1); }
    jpeg_finish_compress(&out);
    jpeg_destroy_compress(&out);
    jpeg_create_decompress(&in);
    jpeg_mem_src(&in, coded, size);
    jpeg_read_header(&in, TRUE);
    jpeg_start_decompress(&in);
    while (in.output_scanline < HEIGHT) { JSAMPROW row = image[in.output_scanline]; jpeg_read_scanlines(&in, &row, 1); }
    jpeg_finish_decompress(&in);
    jpeg_destroy_decompress(&in);
    free(coded);
    sum = sum_of(&image[0][0], sizeof image);
    return sum * 31 + size;
}
