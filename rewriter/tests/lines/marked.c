/* Every marked store names its own line in its immediate. */
#define MARK(p) (*(p) = 0x5f100000 + __LINE__)

int global;
extern void outside(int);

static inline void inlined(volatile int *p, int x)
{
	if (x > 3)
		MARK(p);
}

__attribute__((noinline)) static int switched(volatile int *p, int x)
{
	switch (x) {
	case 0: MARK(p); break;
	case 1: MARK(p + 1); outside(3); break;
	case 2: MARK(p + 2); break;
	case 3: MARK(p + 3); outside(x); break;
	case 4: MARK(p + 4); break;
	case 5: MARK(p + 5); break;
	case 6: MARK(p + 6); break;
	}
	return x + global;
}

__attribute__((noinline, cold)) void unlikely(volatile int *p)
{
	MARK(p);
	outside(1);
}

int looped(volatile int *p, int n, int (*f)(int))
{
	char big[64];
	int sum = 0;
	for (int i = 0; i < n; i++) {
		MARK(p + i);
		inlined(p, i);
		sum += switched(p, i) + f(i);
		big[i & 63] = (char)sum;
		if (__builtin_expect(sum == 12345, 0)) {
			MARK(p + 9);
			unlikely(p);
			__builtin_trap();
		}
	}
	MARK(p + 7);
	return sum + big[3];
}
