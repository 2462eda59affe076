/* Three chains on stacks of their own, of which one goes on where another yields: a stack that is
 * taken while `a` runs is `a`'s, up to where its coroutine begins, and nobody has called that. */
#include "chain.h"

#include <ucontext.h>

#define COROUTINES 3
#define STACK_BYTES (256 << 10)

static ucontext_t scheduler, coroutines[COROUTINES];
static int running;

/* Works, and lets the next one go on. */
FRAME_FUNCTION static long yields(long value)
{
	value = leaf(value);
	swapcontext(&coroutines[running], &scheduler);
	return value;
}

#define leaf yields
CHAIN(a)
CHAIN(b)
CHAIN(c)
#undef leaf

#define COROUTINE(name, chain)                       \
	FRAME_FUNCTION static void name(void)        \
	{                                            \
		for (volatile long value = 0;;)      \
			value += chain(value);       \
	}

COROUTINE(coroutine_a, a01)
COROUTINE(coroutine_b, b01)
COROUTINE(coroutine_c, c01)

int main(int count, char **words)
{
	void (*const functions[COROUTINES])(void) = {coroutine_a, coroutine_b, coroutine_c};
	uint64_t end = end_ns(count, words);

	start_waked_thread();
	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack.ss_sp = malloc(STACK_BYTES);
		coroutines[i].uc_stack.ss_size = STACK_BYTES;
		coroutines[i].uc_link = &scheduler;
		makecontext(&coroutines[i], functions[i], 0);
	}
	while (clock_ns() < end) {
		running = (running + 1) % COROUTINES;
		swapcontext(&scheduler, &coroutines[running]);
	}
	return 0;
}
