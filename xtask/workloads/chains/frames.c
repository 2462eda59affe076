/* Frames whose size only rbp knows (alloca, arrays of variable length), that are aligned to more
 * than a stack is, and that are larger than 16 bits count. */
#include "chain.h"

#include <alloca.h>

/* How much, no compiler knows. */
static volatile long bytes = 40;

#define ALLOCA_FRAME(name, next)                             \
	FRAME_FUNCTION long name(long x)                     \
	{                                                    \
		char *room = alloca(bytes * (x % 3 + 1));    \
		room[0] = (char)x;                           \
		KEEP(room);                                  \
		long y = next(x + 1);                        \
		KEEP(y);                                     \
		return y + room[0];                          \
	}
#define VARIABLE_FRAME(name, next)                           \
	FRAME_FUNCTION long name(long x)                     \
	{                                                    \
		volatile long room[bytes + x];               \
		room[bytes] = x;                             \
		long y = next(x + 1);                        \
		KEEP(y);                                     \
		return y + room[bytes];                      \
	}
#define ALIGNED_FRAME(name, next, to)                                      \
	FRAME_FUNCTION long name(long x)                                   \
	{                                                                  \
		__attribute__((aligned(to))) volatile long room[8] = {x};  \
		long y = next(x + (long)&room[0] % to);                    \
		KEEP(y);                                                   \
		return y + room[0];                                        \
	}
/* Both at once: a compiler then needs a register besides rbp. */
#define ALIGNED_ALLOCA_FRAME(name, next)                                   \
	FRAME_FUNCTION long name(long x)                                   \
	{                                                                  \
		__attribute__((aligned(64))) volatile long room[8] = {x};  \
		char *more = alloca(bytes * (x % 3 + 1));                  \
		more[0] = (char)x;                                         \
		KEEP(more);                                                \
		long y = next(x + 1);                                      \
		KEEP(y);                                                   \
		return y + room[0] + more[0];                              \
	}

ALIGNED_FRAME(f20, leaf, 32)
ALLOCA_FRAME(f19, f20)
VARIABLE_FRAME(f18, f19)
ALIGNED_FRAME(f17, f18, 64)
FRAME(f16, f17, 8)
ALIGNED_ALLOCA_FRAME(f15, f16)
SMALL_FRAME(f14, f15)
ALIGNED_FRAME(f13, f14, 128)
ALIGNED_FRAME(f12, f13, 4096)
ALLOCA_FRAME(f11, f12)
FRAME(f10, f11, 300000)
VARIABLE_FRAME(f09, f10)
FRAME(f08, f09, 33000)
ALIGNED_ALLOCA_FRAME(f07, f08)
ALIGNED_FRAME(f06, f07, 32)
FRAME(f05, f06, 70000)
SMALL_FRAME(f04, f05)
ALLOCA_FRAME(f03, f04)
ALIGNED_FRAME(f02, f03, 64)
FRAME(f01, f02, 16)

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);

	start_waked_thread();
	while (clock_ns() < end)
		f01(1);
	return 0;
}
