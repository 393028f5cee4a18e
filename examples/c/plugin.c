/* A plugin. It knows nothing of domains. */
void host_log(const char *text, unsigned long length);

long add(long a, long b)
{
    host_log("adding", 6);
    return a + b;
}

int crash(int *where) { return *(volatile int *)where = 1; }
