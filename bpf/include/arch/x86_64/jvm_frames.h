/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * x86-64: frames of HotSpot's code. A part of jvm.h, with whose state it works.
 *
 * A compiled method begins with `push rbp; sub rsp, n` and ends with `add rsp, n;
 * pop rbp`, a poll, and `ret`; between these it is a frame of the size that the
 * machine knows. So is a native method's wrapper, and a stub where it has called.
 * The interpreter keeps frame pointers. A stub without a size is a routine like any
 * in assembly, mostly with a frame pointer.
 */

/* Bytes of instructions, as they lie in a word: `push rbp`, then `mov rbp, rsp` or what makes room. */
#define PUSHES_RBP 0x55
#define MAKES_FRAME(bytes) (((bytes)&0xfff5ffff) == 0xec814855)
#define MAKES_FRAME_POINTER 0xec8b4855
#define JUMPS 0xe9
#define LEAVES 0xc9
/* `mov [rsp + n], rbp`: n of one byte or four. */
#define SAVES_RBP(bytes) ((bytes) == 0x246c8948 || (bytes) == 0x24ac8948)
/* Before `ret` a method looks whether its thread is to stop: `cmp rsp, [r15 + n]`, n of one byte or
 * four, `ja`; before OpenJDK 17 `mov r10, [r15 + n]`, `test [r10], eax`. */
#define COMPARES_SHORT(bytes) (((bytes)&0xffffff) == 0x673b49)
#define COMPARES_LONG(bytes) (((bytes)&0xffffff) == 0xa73b49)
#define JUMPS_IF_ABOVE(bytes) (((bytes)&0xffff) == 0x870f)
#define LOADS_POLL(bytes) (((bytes)&0xffffff) == 0x978b4d)
#define TESTS_POLL(bytes) ((bytes) == 0xc3028541)
/* If it is: `lea r10, [rip + n]`, `mov [r15 + n], r10`, `jmp`. */
#define LOADS_PLACE(bytes) (((bytes)&0xffffff) == 0x158d4c)
#define STORES_PLACE(bytes) (((bytes)&0xffffff) == 0x97894d)
#define CALLS_R10 0xd2ff41
#define PUTS_INTO_R10 0xba49
#define MOVES_RBX_TO_RSP(bytes) (((bytes)&0xffffff) == 0xe38b48)

/* What was read of the instructions around ip. */
#define BYTES_AT(j, i) (*(__u32 *)((j)->bytes + JVM_BYTES_BEFORE + (i)))
#define BYTE_AT(j, i) ((j)->bytes[JVM_BYTES_BEFORE + (i)])

/* 1 if the number is negative, or 0, without a branch: in a loop the verifier would go both ways
 * each time. */
static __always_inline __u64 is_negative(__u64 number)
{
	barrier_var(number);
	return number >> 63;
}

static __always_inline __u64 is_zero(__u64 number)
{
	barrier_var(number);
	return is_negative((number - 1) & ~number);
}

/* Before how many bytes of the frame's last instruction the machine's method may be; the rest of
 * what was read is for looking at what follows. */
#define JVM_PROLOGUE_BYTES 64

/* How much of a frame there is: all, only where it returns to, that and rbp, all but rbp. */
enum { JVM_FRAME, JVM_CALLED, JVM_SAVED, JVM_UNSAVED };

static __always_inline bool jvm_read_bytes(struct scratch *s)
{
	struct jvm *j = &s->jvm;

	return !bpf_probe_read_user(j->bytes, sizeof(j->bytes),
				    (void *)(s->unwind.ip - JVM_BYTES_BEFORE));
}

/* Whether there is an instruction that calls before the address in `returns`. */
static __always_inline bool jvm_follows_call(struct scratch *s)
{
	__u64 bytes = bytes_at(&s->unwind, s->jvm.returns - 8);
	__u32 last = bytes >> 48, longer = bytes >> 40 & 0xffff, with_byte = bytes >> 32 & 0xffff;
	__u32 with_number = bytes >> 16 & 0xffff, longest = bytes >> 8 & 0xffff;

	/* To an address; by a pointer at an address; by a register, or a pointer where one leads; by a
	 * pointer so many bytes from there, of one byte or four. */
	return (bytes >> 24 & 0xff) == CALL || with_number == CALL_BY_POINTER ||
	       (last & 0xf8ff) == 0xd0ff || (last & 0xf8ff) == 0x10ff || longer == 0x14ff ||
	       (longer & 0xf8ff) == 0x50ff || (with_number & 0xf8ff) == 0x90ff ||
	       with_byte == 0x54ff || longest == 0x94ff;
}

/* Whether `returns` is where a method goes on that has called. */
static __always_inline bool jvm_may_return(struct scratch *s)
{
	struct jvm *j = &s->jvm;
	struct jvm_layout *layout = jvm_layout_of(s);

	if (!jvm_holds(layout, j->returns))
		return false;
	/* The interpreter puts there where it goes on. */
	return j->returns - layout->interpreter < layout->interpreter_bytes || jvm_follows_call(s);
}

/* Whether `returns` is the barrier below frames of a virtual thread that are still in the heap; then
 * `barrier` is, too. No call is before it. */
static __always_inline bool jvm_is_barrier(struct scratch *s)
{
	struct jvm *j = &s->jvm;
	struct jvm_layout *layout = jvm_layout_of(s);
	__u32 number = layout->file;
	struct HotspotFile *file = bpf_map_lookup_elem(&hotspot_files, &number);

	return file && file->continuation[CONTINUATION_BARRIER] &&
	       jvm_read(&j->barrier, file->continuation[CONTINUATION_BARRIER] - layout->bias) &&
	       j->barrier == j->returns;
}

/* Whether the word below `cfa` is where the machine's code is returned to: that into `returns`. */
__noinline int jvm_returns_below(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;

	if (j->cfa <= u->sp || j->cfa - u->sp > MAX_FRAME_BYTES || !read_word(s, j->cfa - 8))
		return 0;
	j->returns = u->word;
	/* The outermost frame of a chunk in the heap. */
	if (j->chunk_end && (!j->returns || j->cfa == j->chunk_end))
		return 1;
	return jvm_may_return(s) || jvm_is_barrier(s);
}

/* The address that is kept as `word`, from where it counts in a chunk of frames in the heap. Without a
 * branch, see is_negative. */
#define JVM_LINK(j, word, from) (((word) << ((j)->link_shift & 3)) + ((from) & (j)->link_base))

/* Goes to the caller whose stack pointer is `cfa`; its rbp lies below where it is returned to, if
 * that was saved. */
static __always_inline int jvm_to_caller(struct scratch *s, bool is_saved)
{
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;

	if (is_saved) {
		if (!read_word(s, j->cfa - 16))
			return STACK_UNREADABLE;
		u->bp = JVM_LINK(j, u->word, j->cfa - 16);
	}
	u->sp = j->cfa;
	u->ip = j->returns;
	u->reached = FRAME_CALLED;
	look_elsewhere(u);
	return UNWIND_GOES_ON;
}

/* The interpreter's: where its caller's stack is lies below rbp. */
__noinline int jvm_step_interpreter(SCRATCH)
{
	TAKE_SCRATCH(STACK_NO_UNWIND_INFORMATION);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;
	__u64 bp = u->bp;

	if (stands(u)) {
		/* A method that is about to make its frame, or has left it: rbp is its caller's. */
		__u64 makes = 0;

		if (!jvm_read_bytes(s))
			return STACK_UNREADABLE;
		for (int i = -2; i < JVM_BYTES_AHEAD - 8; i++)
			makes |= is_zero(BYTES_AT(j, i) ^ MAKES_FRAME_POINTER);
		__u32 leaves = BYTE_AT(j, -1) == LEAVES || BYTE_AT(j, -2) == LEAVES ||
			       (BYTE_AT(j, -5) == LEAVES && MOVES_RBX_TO_RSP(BYTES_AT(j, -3)));

		if (makes || leaves || bp == u->sp)
			return STACK_NO_UNWIND_INFORMATION;
	} else if (j->was_stub) {
		/* What it does itself of mathematics has no frame. */
		return STACK_NO_UNWIND_INFORMATION;
	}
	if (bp < u->sp || bp - u->sp > MAX_FRAME_BYTES)
		return STACK_NO_UNWIND_INFORMATION;
	j->cfa = bp + 16;
	if (!jvm_returns_below(GIVE_SCRATCH(s)))
		return STACK_NO_UNWIND_INFORMATION;
	if (!read_word(s, bp - 8))
		return STACK_UNREADABLE;
	__u64 sp = JVM_LINK(j, u->word, bp);

	if (sp < bp + 16 || sp - bp > MAX_FRAME_BYTES)
		return STACK_NO_UNWIND_INFORMATION;
	int ending = jvm_to_caller(s, true);

	u->sp = sp;
	return ending;
}

/* Whether the address in `returns` follows a call of a routine in this piece: that into `called`.
 * Where it is far away, its address was put into a register: `mov r10, n; call r10`. */
__noinline int jvm_was_called(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;
	__u64 bytes = bytes_at(u, j->returns - 8), called = 0;

	if ((bytes >> 24 & 0xff) == CALL)
		called = j->returns + (__u64)(__s64)(__s32)(bytes >> 32);
	else if (bytes >> 40 == CALLS_R10 && (bytes_at(u, j->returns - 13) & 0xffff) == PUTS_INTO_R10)
		called = bytes_at(u, j->returns - 11);
	u->called = called;
	return called >= j->code && called < j->end;
}

/* A stub's: by whose call of it is on the stack. */
__noinline int jvm_step_stub(SCRATCH)
{
	TAKE_SCRATCH(STACK_NO_UNWIND_INFORMATION);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;
	__u64 bp = u->bp;

	j->was_stub = 1;
	if (stands(u)) {
		if (!jvm_read_bytes(s))
			return STACK_UNREADABLE;
		j->cfa = u->sp + 8;
		/* At its first instruction, and at its last. */
		if (jvm_returns_below(GIVE_SCRATCH(s)) && jvm_was_called(GIVE_SCRATCH(s)) &&
		    (u->called == u->ip || BYTE_AT(j, 0) == RETURNS))
			return jvm_to_caller(s, false);
		if (unwind_returns_at_sp(GIVE_SCRATCH(s))) {
			j->returns = u->word;
			return jvm_to_caller(s, false);
		}
		j->cfa = u->sp + 16;
		if (BYTES_AT(j, -1) == MAKES_FRAME_POINTER && jvm_returns_below(GIVE_SCRATCH(s)) &&
		    jvm_was_called(GIVE_SCRATCH(s)) && u->called == u->ip - 1)
			return jvm_to_caller(s, true);
	}
	if (bp < u->sp)
		return STACK_NO_UNWIND_INFORMATION;
	j->cfa = bp + 16;
	if (!jvm_returns_below(GIVE_SCRATCH(s)) || !jvm_was_called(GIVE_SCRATCH(s)) ||
	    (__u32)bytes_at(u, u->called) != MAKES_FRAME_POINTER)
		return STACK_NO_UNWIND_INFORMATION;
	return jvm_to_caller(s, true);
}

/* Where native code called a method. */
static __always_inline int jvm_step_call_stub(struct scratch *s)
{
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;
	__u64 bp = u->bp;

	if (bp < u->sp || bp - u->sp > MAX_FRAME_BYTES)
		return STACK_NO_UNWIND_INFORMATION;
	if (!read_word(s, bp + 8))
		return STACK_UNREADABLE;
	j->returns = u->word;
	j->cfa = bp + 16;
	if (!jvm_follows_call(s))
		return STACK_NO_UNWIND_INFORMATION;
	return jvm_to_caller(s, true);
}

/* Whether room is made by an instruction of the next `left` bytes, for which the frame is not there
 * yet. */
__noinline int jvm_will_make_room(SCRATCH, __s64 left)
{
	TAKE_SCRATCH(0);
	struct jvm *j = &s->jvm;
	__u64 makes = 0;

	for (int i = 0; i < JVM_PROLOGUE_BYTES; i++)
		makes |= is_zero(ROOM_BYTES(BYTES_AT(j, i)) ^ ROOM) & is_negative(i - left);
	return makes;
}

/* How much of its frame a compiled method has that stands at ip. */
__noinline int jvm_frame_here(SCRATCH)
{
	TAKE_SCRATCH(JVM_FRAME);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;
	__u32 next = BYTES_AT(j, 0);
	__u8 byte = next, before = BYTE_AT(j, -1);
	__s64 left = j->code + j->complete - u->ip;

	if (MAKES_FRAME(next))
		return JVM_CALLED;
	if (MAKES_FRAME(BYTES_AT(j, -1)) || (BYTES_AT(j, -4) == MAKES_FRAME_POINTER && MAKES_ROOM(next)))
		return JVM_SAVED;
	if (left > 0) {
		if (SAVES_RBP(next))
			return JVM_UNSAVED;
		if (left > JVM_PROLOGUE_BYTES)
			return JVM_CALLED;
		/* A frame of two words has its rbp at its stack pointer, which is no address of code. */
		if (jvm_will_make_room(GIVE_SCRATCH(s), left) || j->frame_bytes == 16)
			return JVM_CALLED;
		return JVM_FRAME;
	}
	if (byte == RETURNS || TESTS_POLL(next))
		return JVM_CALLED;
	bool polls = COMPARES_SHORT(next) || COMPARES_LONG(next) || LOADS_POLL(next) || byte == JUMPS;

	if (before == POPS_RBP && polls)
		return JVM_CALLED;
	if (JUMPS_IF_ABOVE(next) && BYTE_AT(j, 6) == RETURNS &&
	    ((BYTE_AT(j, -5) == POPS_RBP && COMPARES_SHORT(BYTES_AT(j, -4))) ||
	     (BYTE_AT(j, -8) == POPS_RBP && COMPARES_LONG(BYTES_AT(j, -7)))))
		return JVM_CALLED;
	if ((LOADS_PLACE(next) && STORES_PLACE(BYTES_AT(j, 7))) ||
	    (STORES_PLACE(next) && BYTE_AT(j, 7) == JUMPS && LOADS_PLACE(BYTES_AT(j, -7))) ||
	    (byte == JUMPS && STORES_PLACE(BYTES_AT(j, -7)) && LOADS_PLACE(BYTES_AT(j, -14))))
		return JVM_CALLED;
	__u32 second = BYTES_AT(j, 1);

	if (byte == POPS_RBP && ((__u8)second == RETURNS || (__u8)second == JUMPS ||
				 COMPARES_SHORT(second) || COMPARES_LONG(second) || LOADS_POLL(second)))
		return JVM_SAVED;
	return JVM_FRAME;
}

/* Goes to the caller of a frame of the machine's code, or says why not; or that it is a stub's: calls
 * of functions must not be deep. */
__noinline int jvm_step(SCRATCH)
{
	TAKE_SCRATCH(JVM_NONE);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;
	struct jvm_layout *layout = jvm_layout_of(s);

	if (!jvm_is_known(s)) {
		/* What its instructions say is no guess, whoever has made them. */
		int ending = unwind_by_code_ahead(GIVE_SCRATCH(s));

		if (ending != JVM_NONE)
			return ending;
		bool is_guess = layout->space != u->space;

		j->was_guessed |= is_guess;
		if (!is_guess || !u->ends_at_guess)
			return JVM_NONE;
		/* No file's table is missing. */
		u->file = 0;
		return STACK_NO_TABLE_YET;
	}
	look_elsewhere(u);
	if (u->address - layout->interpreter < layout->interpreter_bytes)
		return jvm_step_interpreter(GIVE_SCRATCH(s));
	if (!stands(u) && u->ip == layout->call_stub) {
		j->was_stub = 0;
		return jvm_step_call_stub(s);
	}
	if (!jvm_find_piece(GIVE_SCRATCH(s)))
		return STACK_NO_UNWIND_INFORMATION;
	/* Of some pieces no place has all of the frame but where they have called. */
	bool is_sized = j->frame_bytes > 0 && (j->complete >= 0 || !stands(u));

	if (is_sized) {
		int has = JVM_FRAME;

		if (stands(u)) {
			if (!jvm_read_bytes(s))
				return STACK_UNREADABLE;
			has = jvm_frame_here(GIVE_SCRATCH(s));
		}
		j->cfa = u->sp + (has == JVM_CALLED ? 8 : has == JVM_SAVED ? 16 : j->frame_bytes);
		int found = jvm_returns_below(GIVE_SCRATCH(s));

		if (!found && has == JVM_CALLED && j->frame_bytes == 16) {
			j->cfa = u->sp + 16;
			has = JVM_SAVED;
			found = jvm_returns_below(GIVE_SCRATCH(s));
		}
		if (found) {
			j->was_stub = 0;
			return jvm_to_caller(s, has != JVM_CALLED && has != JVM_UNSAVED);
		}
		if (j->complete >= 0)
			return STACK_NO_UNWIND_INFORMATION;
	}
	return JVM_STUB;
}
