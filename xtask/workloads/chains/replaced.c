/* Two libraries with other code, of which one is loaded where the other was: an address is in
 * both, and what it is called tells which of them was there. */
#include "chain.h"

#include <dlfcn.h>

static uintptr_t last;

/* Runs one library's chain for some milliseconds. */
FRAME_FUNCTION static int run(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	long (*first)(long, long (*)(long));

	if (!library || !(first = (long (*)(long, long (*)(long)))dlsym(library, "begin"))) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	uintptr_t page = (uintptr_t)first & ~0xfffful;
	int same = page == last;

	last = page;
	for (int i = 0; i < 12; i++)
		first(i, leaf);
	dlclose(library);
	return same;
}

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);
	unsigned long same = 0, all = 0;

	if (count < 4)
		return 2;
	start_waked_thread();
	while (clock_ns() < end) {
		same += run(words[2]);
		same += run(words[3]);
		all += 2;
	}
	printf("{\"loaded\":%lu,\"same\":%lu}\n", all, same);
	return 0;
}
