// Landing pads, cleanups and calls with arguments on the stack, for the tables of the unwinder.
struct guard {
    long *place;
    long value;
    guard(long *p, long v) : place(p), value(v) {}
    ~guard() { *place += value; }
};

extern "C" long outside(long);
extern "C" long many(long, long, long, long, long, long, long, long, long);

long one(long *p, long n) {
    guard a(p, n);
    try {
        guard b(p, n * 3);
        return outside(n) + many(n, 1, 2, 3, 4, 5, 6, outside(n + 1), 8);
    } catch (int code) {
        return code + outside(*p);
    } catch (const char *) {
        return *p;
    }
}

long busy(long *p, long n) {
    long a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = 0;
    for (long i = 0; i < n; i++) {
        try {
            g += outside(a + b) * c;
            a ^= d, b += e, c -= f, d += g, e ^= i, f += a;
        } catch (long more) {
            g -= more + many(a, b, c, d, e, f, g, i, more);
        }
    }
    return a + b + c + d + e + f + g;
}

long thrower(long n) {
    if (n > 3)
        throw n;
    if (n < 0)
        throw "negative";
    return n;
}
