/* A chain that leaves the program for a library, in which every call goes through the procedure
 * linkage table: the library's functions could be replaced. */
#include "chain.h"

/* The library's. */
long f02(long x);

long leaf_of_program(long x);

/* The innermost calls back into the program, by its table, too. */
FRAME_FUNCTION long leaf_of_program(long x)
{
	return leaf(x) + 1;
}

FRAME(f01, f02, 24)

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);

	start_waked_thread();
	while (clock_ns() < end) {
		f01(1);
		/* Short calls, so that samples fall into the tables. */
		for (long i = 0; i < 2000; i++)
			f01(-100000);
	}
	return 0;
}
