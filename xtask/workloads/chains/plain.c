/* C with nothing special: static and dynamic, by either C library, with tables and without. */
#include "chain.h"

CHAIN(f)

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);

	start_waked_thread();
	while (clock_ns() < end)
		f01(1);
	return 0;
}
