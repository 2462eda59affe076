/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * x86-64: what a walk reads of instructions and of the frames of signals.
 * A part of unwind.h, with whose state it works.
 */
/* Bytes of instructions, as they lie in a word: calls and jumps to an address and by a pointer,
 * what may stand before them, and what saves a register or makes room. */
#define CALL 0xe8
#define CALL_BY_POINTER 0x15ff
#define JUMP_BY_POINTER 0x25ff
#define ENDBR64 0xfa1e0ff3
#define BND 0xf2
#define IS_PUSH(bytes) (((bytes)&0xf8) == 0x50 || ((bytes)&0xf8ff) == 0x5041)
#define ROOM_BYTES(bytes) ((bytes)&0xfffdff)
#define ROOM 0xec8148
#define MAKES_ROOM(bytes) (ROOM_BYTES(bytes) == ROOM)
/* `add rsp, n`, n of one byte, a number of words that is not negative; `pop rbp`; `ret`. */
#define GIVES_ROOM_BACK(bytes) (((bytes)&0x87ffffff) == 0xc48348)
#define POPS_RBP 0x5d
#define RETURNS 0xc3

/* The function that is called by the instruction before `address`: into `called`, 0 where the bytes
 * there are no call that says so. Of an entry of a procedure linkage table, where that leads. */
__noinline int unwind_find_called(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	__u64 returns = u->address, bytes = bytes_at(u, returns - 8), called = 0;
	__u64 distance = (__u64)(__s64)(__s32)(bytes >> 32);

	if ((bytes >> 24 & 0xff) == CALL) {
		called = returns + distance;
		if (!is_in_function(u, called)) {
			bytes = bytes_at(u, called);
			if ((__u32)bytes == ENDBR64) {
				called += 4;
				bytes = bytes_at(u, called);
			}
			if ((bytes & 0xff) == BND) {
				called++;
				bytes >>= 8;
			}
			if ((bytes & 0xffff) == JUMP_BY_POINTER)
				called = bytes_at(u, called + 6 + (__u64)(__s64)(__s32)(bytes >> 16));
		}
	} else if ((bytes >> 16 & 0xffff) == CALL_BY_POINTER) {
		called = bytes_at(u, returns + distance);
	}
	u->called = called;
	return 0;
}

/*
 * Whether a frame that stands, in code without unwind information, has nothing
 * on its stack but where it returns to; into `word`. Its frame pointer is its
 * caller's then, and leads past the caller.
 *
 * Any word of a stack may be an address that a call returned to once. This one is
 * taken if the call was of this very function, which does not begin with what
 * makes a frame, and if rbp does not lead to such a call as well.
 */
__noinline int unwind_returns_at_sp(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;

	if (!stands(u) || !read_word(s, u->sp))
		return 0;
#ifdef WALK_SLOTS
	/* Nothing was put on the stack yet; there is no need to look at code, which is the kernel's
	 * breakpoint here. */
	if (u->is_entry && u->reached == FRAME_RUNNING)
		return 1;
#endif
	__u64 returns = u->word, bp = u->bp;

	u->address = returns;
	unwind_find_called(GIVE_SCRATCH(s));
	__u64 called = u->called;

	if (!is_in_function(u, called))
		return 0;
	__u64 first = called, bytes = bytes_at(u, first);

	if ((__u32)bytes == ENDBR64) {
		first += 4;
		bytes = bytes_at(u, first);
	}
	if (u->ip > first && (IS_PUSH(bytes) || MAKES_ROOM(bytes)))
		return 0;
	if (bp >= u->sp && bp - u->sp <= MAX_FRAME_BYTES && read_word(s, bp + 8)) {
		u->address = u->word;
		unwind_find_called(GIVE_SCRATCH(s));
		if (u->called == called)
			return 0;
	}
	u->word = returns;
	return 1;
}

/*
 * Goes to the caller of a caller in code that no file describes, if what that goes
 * on with says where its own caller is: it gives back its room, if it has any, and
 * rbp, and returns. So do trampolines, as Python's, which call once. Else JVM_NONE.
 *
 * Code that was looked at in vain leaves a walk as it is. Its frame pointers are as
 * good as they were, so walks by them stay to be remembered (known_walk.h).
 */
__noinline int unwind_by_code_ahead(SCRATCH)
{
	TAKE_SCRATCH(JVM_NONE);
	struct unwind *u = &s->unwind;
	__u64 sp = u->sp, bp = u->bp, bytes = 0;

	if (stands(u) || bpf_probe_read_user(&u->word, 8, (void *)u->ip))
		return JVM_NONE;
	bytes = u->word;
	if (GIVES_ROOM_BACK(bytes)) {
		sp += bytes >> 24 & 0xff;
		bytes >>= 32;
	}
	if ((bytes & 0xff) == POPS_RBP) {
		if ((bytes >> 8 & 0xff) != RETURNS)
			return JVM_NONE;
		if (!read_word(s, sp))
			return STACK_UNREADABLE;
		bp = u->word;
		sp += 8;
	} else if ((bytes & 0xff) != RETURNS) {
		return JVM_NONE;
	}
	look_elsewhere(u);
	if (!read_word(s, sp))
		return STACK_UNREADABLE;
	if (!u->word)
		return UNWIND_WHOLE;
	u->ip = u->word;
	u->sp = sp + 8;
	u->bp = bp;
	u->reached = FRAME_CALLED;
	return UNWIND_GOES_ON;
}

/* What the kernel saved for a signal handler: struct ucontext at rsp, its struct sigcontext_64 40
 * bytes behind (arch/x86/include/uapi/asm/sigcontext.h). */
#define SIGNAL_REGISTERS 40
#define SIGNAL_BP 120
#define SIGNAL_SP 160
#define SIGNAL_IP 168

static __always_inline int unwind_signal(struct scratch *s)
{
	struct unwind *u = &s->unwind;
	__u64 frame = u->sp;

	if (!read_word(s, frame + SIGNAL_BP))
		return STACK_UNREADABLE;
	u->bp = u->word;
	if (!read_word(s, frame + SIGNAL_SP))
		return STACK_UNREADABLE;
	u->sp = u->word;
	if (!read_word(s, frame + SIGNAL_IP))
		return STACK_UNREADABLE;
	u->ip = u->word;
	u->registers = frame + SIGNAL_REGISTERS;
	u->reached = FRAME_INTERRUPTED;
	return UNWIND_GOES_ON;
}
