// Exceptions that fly through the whole chain: every function has something to destroy on the way.
#include "chain.h"

#include <stdexcept>
#include <string>

struct Counted {
	explicit Counted(long value) : text(40, 'x'), value(value) {}
	~Counted() { destroyed = destroyed + value; }
	std::string text;
	long value;
	static volatile long destroyed;
};
volatile long Counted::destroyed;

FRAME_FUNCTION static long throws(long value)
{
	if (leaf(value) == value + 1)
		return value;
	throw std::runtime_error("innermost");
}

#define THROWN_THROUGH(name, next)          \
	FRAME_FUNCTION long name(long x)    \
	{                                   \
		Counted counted(x);         \
		long y = next(x + 1);       \
		KEEP(y);                    \
		return y + counted.value;   \
	}

THROWN_THROUGH(f20, throws)
THROWN_THROUGH(f19, f20)
THROWN_THROUGH(f18, f19)
THROWN_THROUGH(f17, f18)
SMALL_FRAME(f16, f17)
THROWN_THROUGH(f15, f16)
THROWN_THROUGH(f14, f15)
THROWN_THROUGH(f13, f14)
FRAME(f12, f13, 300)
THROWN_THROUGH(f11, f12)
THROWN_THROUGH(f10, f11)
THROWN_THROUGH(f09, f10)
SMALL_FRAME(f08, f09)
THROWN_THROUGH(f07, f08)
THROWN_THROUGH(f06, f07)
THROWN_THROUGH(f05, f06)
FRAME(f04, f05, 64)
THROWN_THROUGH(f03, f04)
THROWN_THROUGH(f02, f03)
THROWN_THROUGH(f01, f02)

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);

	start_waked_thread();
	while (clock_ns() < end) {
		try {
			f01(1);
		} catch (const std::runtime_error &) {
			Counted::destroyed = Counted::destroyed + 1;
		}
	}
	return 0;
}
