/* Changes its executable mappings as fast as it can, of a file and of none, on two threads; prints
 * how often it did. */
#include "chain.h"

#include <fcntl.h>
#include <sys/mman.h>

#define PAGES 16
#define BYTES (PAGES * 4096)

static uint64_t end;
static int file;

/* A mapping is made, taken apart so that there are several, and given back. */
static void *changes(void *count)
{
	unsigned long *changed = count;

	while (clock_ns() < end) {
		for (int round = 0; round < 64; round++) {
			int flags = MAP_PRIVATE | (round & 1 ? MAP_ANONYMOUS : 0);
			char *at = mmap(NULL, BYTES, PROT_READ | PROT_EXEC, flags, round & 1 ? -1 : file, 0);

			if (at == MAP_FAILED)
				exit(1);
			for (int page = 1; page < PAGES; page += 4) {
				mprotect(at + page * 4096, 4096, PROT_READ);
				mprotect(at + page * 4096, 4096, PROT_READ | PROT_EXEC);
			}
			munmap(at + 4096, 4096);
			munmap(at, BYTES);
			*changed += 11;
		}
	}
	return NULL;
}

int main(int count, char **words)
{
	unsigned long here = 0, there = 0;
	pthread_t thread;

	end = end_ns(count, words);
	file = open("/proc/self/exe", O_RDONLY);
	if (file < 0 || pthread_create(&thread, NULL, changes, &there))
		return 1;
	changes(&here);
	pthread_join(thread, NULL);
	printf("{\"changed\":%lu}\n", here + there);
	return 0;
}
