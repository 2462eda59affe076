/* The libraries of replaced.c: `a` and `b`, whose functions lie elsewhere and have other frames. */
#include "chain.h"

static long (*innermost)(long);

FRAME_FUNCTION static long calls_back(long x)
{
	return innermost(x) + 1;
}

#define leaf calls_back
#ifdef LIBRARY_A
CHAIN(a)
#define OUTERMOST a01
#else
FRAME(b20, leaf, 700)
SMALL_FRAME(b19, b20)
FRAME(b18, b19, 1800)
FRAME(b17, b18, 8)
FRAME(b16, b17, 8)
FRAME(b15, b16, 96)
SMALL_FRAME(b14, b15)
SMALL_FRAME(b13, b14)
SMALL_FRAME(b12, b13)
FRAME(b11, b12, 500)
FRAME(b10, b11, 24)
FRAME(b09, b10, 24)
SMALL_FRAME(b08, b09)
FRAME(b07, b08, 16)
FRAME(b06, b07, 260)
FRAME(b05, b06, 8)
SMALL_FRAME(b04, b05)
FRAME(b03, b04, 56)
FRAME(b02, b03, 1400)
FRAME(b01, b02, 40)
#define OUTERMOST b01
#endif
#undef leaf

FRAME_FUNCTION long begin(long x, long (*function)(long))
{
	innermost = function;
	long y = OUTERMOST(x);

	KEEP(y);
	return y;
}
