/*
 * What the programs of known chains have in common: frames of different sizes and
 * registers, and what the innermost function does.
 *
 * Each program takes a number of seconds. PREFIX01 is the outermost function of a
 * chain, PREFIX20 the innermost; each calls the next and nothing else, so that who
 * reads a stack knows what has to stand between any two of them.
 */
#ifndef CHAIN_H
#define CHAIN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A function of its own under its own name: nothing is inlined, cloned or left out. */
#if defined(__clang__)
#define FRAME_FUNCTION __attribute__((noinline))
#else
#define FRAME_FUNCTION __attribute__((noipa))
#endif
/* What comes behind a call keeps it from being a jump. */
#define KEEP(value) __asm__ volatile("" : "+r"(value) : : "memory")
/* So many values are needed after the call that registers of callers are saved, rbp too. */
#define FRAME(name, next, bytes)                                           \
	FRAME_FUNCTION long name(long x)                                   \
	{                                                                  \
		volatile char room[bytes];                                 \
		long a = x * 3, b = x ^ 5, c = x + 7, d = x << 2, e = -x;  \
		KEEP(a);                                                   \
		KEEP(b);                                                   \
		KEEP(c);                                                   \
		KEEP(d);                                                   \
		KEEP(e);                                                   \
		room[0] = (char)x;                                         \
		long y = next(x + 1);                                      \
		KEEP(y);                                                   \
		return y + a + b + c + d + e + room[0];                    \
	}
/* One that needs none of that: its frame is as small as they get. */
#define SMALL_FRAME(name, next)          \
	FRAME_FUNCTION long name(long x) \
	{                                \
		long y = next(x);        \
		KEEP(y);                 \
		return y;                \
	}

#define CHAIN(p)                   \
	SMALL_FRAME(p##20, leaf)   \
	FRAME(p##19, p##20, 24)    \
	FRAME(p##18, p##19, 8)     \
	SMALL_FRAME(p##17, p##18)  \
	FRAME(p##16, p##17, 200)   \
	FRAME(p##15, p##16, 48)    \
	FRAME(p##14, p##15, 1000)  \
	SMALL_FRAME(p##13, p##14)  \
	FRAME(p##12, p##13, 16)    \
	FRAME(p##11, p##12, 3000)  \
	FRAME(p##10, p##11, 72)    \
	FRAME(p##09, p##10, 8)     \
	SMALL_FRAME(p##08, p##09)  \
	SMALL_FRAME(p##07, p##08)  \
	FRAME(p##06, p##07, 400)   \
	FRAME(p##05, p##06, 32)    \
	FRAME(p##04, p##05, 120)   \
	FRAME(p##03, p##04, 16)    \
	SMALL_FRAME(p##02, p##03)  \
	FRAME(p##01, p##02, 56)

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* When the program is to end. */
static inline uint64_t end_ns(int count, char **words)
{
	return clock_ns() + (count > 1 ? strtoull(words[1], NULL, 10) : 1) * 1000000000ull;
}

/* A thread that waits for what the innermost function writes. */
static int waked[2];

static inline void *wait_to_be_waked(void *unused)
{
	char byte;

	while (read(waked[0], &byte, 1) == 1)
		;
	return unused;
}

static inline void start_waked_thread(void)
{
	pthread_t thread;

	if (pipe(waked) || pthread_create(&thread, NULL, wait_to_be_waked, NULL)) {
		perror("a thread to wake");
		exit(1);
	}
}

/* Some hundred microseconds of work. */
FRAME_FUNCTION static long burn(long value)
{
	for (long round = 0; round < 150000; round++) {
		value = (value ^ value >> 29) * 0x7f51afd7ed558ccdl + round;
		KEEP(value);
	}
	return value;
}

/* Works, and at times sleeps or wakes the other thread. */
FRAME_FUNCTION static long leaf(long value)
{
	static unsigned long round;
	const struct timespec moment = {0, 200000};

	switch (round++ % 4) {
	case 0:
		nanosleep(&moment, NULL);
		break;
	case 1:
		if (write(waked[1], "w", 1) != 1)
			exit(1);
		break;
	default:
		value = burn(value);
	}
	return value;
}

#endif
