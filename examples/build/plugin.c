/* A plugin of two files: this one in C, shape.cc in C++. */
extern int area(int width, int height);

/* Called by `sfi run` with the arguments of the manifest. */
int sfi_main(int width, int height)
{
    return area(width, height);
}
