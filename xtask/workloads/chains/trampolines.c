/* Functions that call one another by trampolines in memory of no file, of which no table tells and
 * whose callers keep no frame pointers: what a trampoline does after its call says where it was
 * called. */
#include "chain.h"

#include <string.h>
#include <sys/mman.h>

typedef long function(long);
typedef long trampoline(long, function *);

#define CALL "\xff\xd6" /* by rsi */
#define RETURN "\xc3"
#define PUSH_RBP "\x55"
#define POP_RBP "\x5d"
#define RBP_IS_RSP "\x48\x89\xe5"
#define LEAVE "\xc9"
#define TAKE(bytes) "\x48\x83\xec" bytes
#define GIVE(bytes) "\x48\x83\xc4" bytes

static const char *const codes[] = {
	/* CPython's, 3.12 and 3.13; 3.14. */
	TAKE("\x08") CALL GIVE("\x08") RETURN,
	PUSH_RBP RBP_IS_RSP CALL POP_RBP RETURN,
	/* With more room; with an rbp that leads nowhere. */
	TAKE("\x78") CALL GIVE("\x78") RETURN,
	PUSH_RBP TAKE("\x20") "\x31\xed" CALL GIVE("\x20") POP_RBP RETURN,
	PUSH_RBP RBP_IS_RSP TAKE("\x10") CALL LEAVE RETURN,
};
#define TRAMPOLINES (sizeof(codes) / sizeof(*codes))
/* Bytes from one to the next. */
#define APART 32

static trampoline *trampolines[TRAMPOLINES];

static void make_trampolines(void)
{
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		exit(1);
	for (size_t i = 0; i < TRAMPOLINES; i++) {
		strcpy(code + i * APART, codes[i]);
		trampolines[i] = (trampoline *)(code + i * APART);
	}
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC))
		exit(1);
}

#define JUMP_FRAME(name, next, by)                            \
	FRAME_FUNCTION long name(long x)                      \
	{                                                     \
		long a = x * 3, b = x ^ 5;                    \
		KEEP(a);                                      \
		KEEP(b);                                      \
		long y = trampolines[by](x + 1, next);        \
		KEEP(y);                                      \
		return y + a + b;                             \
	}

SMALL_FRAME(f20, leaf)
JUMP_FRAME(f19, f20, 0)
FRAME(f18, f19, 8)
JUMP_FRAME(f17, f18, 1)
JUMP_FRAME(f16, f17, 2)
SMALL_FRAME(f15, f16)
JUMP_FRAME(f14, f15, 3)
FRAME(f13, f14, 3000)
JUMP_FRAME(f12, f13, 4)
JUMP_FRAME(f11, f12, 0)
JUMP_FRAME(f10, f11, 0)
FRAME(f09, f10, 72)
JUMP_FRAME(f08, f09, 3)
JUMP_FRAME(f07, f08, 2)
JUMP_FRAME(f06, f07, 1)
SMALL_FRAME(f05, f06)
JUMP_FRAME(f04, f05, 4)
JUMP_FRAME(f03, f04, 3)
FRAME(f02, f03, 16)
JUMP_FRAME(f01, f02, 0)

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);

	make_trampolines();
	start_waked_thread();
	while (clock_ns() < end)
		f01(1);
	return 0;
}
