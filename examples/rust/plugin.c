/* A plugin. It knows nothing of domains. */
void say(const char *text, unsigned long length);

unsigned long shout(char *text)
{
    unsigned long n = 0;
    for (; text[n]; n++)
        if (text[n] >= 'a' && text[n] <= 'z') text[n] -= 32;
    say(text, n);
    return n;
}

int crash(int *where) { return *(volatile int *)where = 1; }
