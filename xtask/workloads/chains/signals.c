/* A chain of a signal handler's, on a stack of its own, above whatever part of the program's chain
 * the timer has interrupted: between any two instructions. */
#include "chain.h"

#include <signal.h>
#include <sys/time.h>

#define STACK_BYTES (256 << 10)

CHAIN(f)

/* In a handler: works, at times sleeps. */
FRAME_FUNCTION static long handled(long value)
{
	static unsigned long round;
	const struct timespec moment = {0, 200000};

	if (round++ % 4 == 0)
		nanosleep(&moment, NULL);
	else
		value = burn(value);
	return value;
}

#define leaf handled
CHAIN(h)
#undef leaf

FRAME_FUNCTION static void handler(int signal)
{
	long value = h01(signal);

	KEEP(value);
}

/* Calls of almost nothing, so that timers find the program in their first and last instructions. */
FRAME_FUNCTION static long returns(long value)
{
	return value;
}

#define leaf returns
CHAIN(q)
#undef leaf

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);
	stack_t stack = {.ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval often = {{0, 2000}, {0, 2000}};
	sigset_t blocked;

	/* The other thread is to have none of them. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	start_waked_thread();
	if (sigaltstack(&stack, NULL) || sigaction(SIGALRM, &action, NULL) ||
	    setitimer(ITIMER_REAL, &often, NULL))
		return 1;
	pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
	while (clock_ns() < end) {
		f01(1);
		for (long i = 0; i < 3000; i++)
			q01(i);
	}
	return 0;
}
