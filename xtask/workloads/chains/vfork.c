/* A child that has its parent's memory, again and again: it runs in its parent's frames until it
 * ends, and nobody saves where `vfork` returns to. */
#include "chain.h"

#include <sys/wait.h>

FRAME_FUNCTION static long forks(long value)
{
	static unsigned long round;
	int status;

	if (round++ % 8)
		return leaf(value);
	pid_t child = vfork();

	if (child < 0)
		exit(1);
	if (!child) {
		burn(value);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return value;
}

SMALL_FRAME(f20, forks)
FRAME(f19, f20, 16)
FRAME(f18, f19, 100)
FRAME(f17, f18, 8)
SMALL_FRAME(f16, f17)
FRAME(f15, f16, 600)
FRAME(f14, f15, 24)
FRAME(f13, f14, 40)
FRAME(f12, f13, 8)
FRAME(f11, f12, 2000)
SMALL_FRAME(f10, f11)
FRAME(f09, f10, 16)
FRAME(f08, f09, 16)
FRAME(f07, f08, 64)
FRAME(f06, f07, 128)
SMALL_FRAME(f05, f06)
FRAME(f04, f05, 8)
FRAME(f03, f04, 32)
FRAME(f02, f03, 16)
FRAME(f01, f02, 24)

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);

	start_waked_thread();
	while (clock_ns() < end)
		f01(1);
	return 0;
}
