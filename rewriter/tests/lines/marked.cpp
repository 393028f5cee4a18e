#define MARK(p) (*(p) = 0x5f100000 + __LINE__)

namespace inner {
template <class T> struct Box {
	T *value;
	__attribute__((noinline)) void fill(int n)
	{
		for (int i = 0; i < n; i++)
			MARK(value + i);
	}
};
inline int both(volatile int *p)
{
	MARK(p);
	return *p;
}
}

int first(volatile int *p, int n)
{
	inner::Box<volatile int> box{p};
	box.fill(n);
	MARK(p + 2);
	return inner::both(p);
}

struct Base {
	virtual int turn(volatile int *p);
	virtual ~Base() {}
};

int Base::turn(volatile int *p)
{
	MARK(p);
	return 1;
}
