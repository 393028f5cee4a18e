/* Does a fixed work with so many threads, in 150 milliseconds or more with one. The result depends
 * on all of it and not on the number of threads. */
unsigned long scaled(int threads);
