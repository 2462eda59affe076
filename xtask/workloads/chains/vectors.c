/* Vectors of 256 bits live across calls: every frame is aligned to 32 bytes, by r10. */
#include "chain.h"

typedef double vector __attribute__((vector_size(32)));

static volatile vector kept = {1, 2, 3, 4};

#define VECTOR_FRAME(name, next)                 \
	FRAME_FUNCTION long name(long x)         \
	{                                        \
		vector a = kept, b = a * 2;      \
		long y = next(x + 1);            \
		KEEP(y);                         \
		kept = a + b / 3;                \
		return y + (long)a[1];           \
	}

VECTOR_FRAME(f20, leaf)
VECTOR_FRAME(f19, f20)
FRAME(f18, f19, 24)
VECTOR_FRAME(f17, f18)
VECTOR_FRAME(f16, f17)
VECTOR_FRAME(f15, f16)
SMALL_FRAME(f14, f15)
VECTOR_FRAME(f13, f14)
VECTOR_FRAME(f12, f13)
FRAME(f11, f12, 500)
VECTOR_FRAME(f10, f11)
VECTOR_FRAME(f09, f10)
VECTOR_FRAME(f08, f09)
FRAME(f07, f08, 40)
VECTOR_FRAME(f06, f07)
VECTOR_FRAME(f05, f06)
SMALL_FRAME(f04, f05)
VECTOR_FRAME(f03, f04)
VECTOR_FRAME(f02, f03)
VECTOR_FRAME(f01, f02)

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);

	start_waked_thread();
	while (clock_ns() < end)
		f01(1);
	return 0;
}
