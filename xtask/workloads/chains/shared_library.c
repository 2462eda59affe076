/* The library of shared.c. */
#include "chain.h"

long leaf_of_program(long x);

/* Only what is positive goes to the end; the rest turns back here. */
FRAME_FUNCTION long f20(long x)
{
	if (x < 0)
		return x;
	long y = leaf_of_program(x);

	KEEP(y);
	return y;
}

FRAME(f19, f20, 24)
SMALL_FRAME(f18, f19)
FRAME(f17, f18, 300)
FRAME(f16, f17, 8)
SMALL_FRAME(f15, f16)
FRAME(f14, f15, 40)
FRAME(f13, f14, 16)
FRAME(f12, f13, 1200)
SMALL_FRAME(f11, f12)
FRAME(f10, f11, 8)
FRAME(f09, f10, 80)
FRAME(f08, f09, 64)
SMALL_FRAME(f07, f08)
SMALL_FRAME(f06, f07)
FRAME(f05, f06, 24)
FRAME(f04, f05, 160)
FRAME(f03, f04, 8)
FRAME(f02, f03, 32)
