/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Frames of Java's virtual threads: a part of jvm.h, with whose state it works.
 *
 * A virtual thread runs on a thread of the system, and waits in the heap, its frames
 * in chunks. When it goes on, the machine brings back only the innermost frames; the
 * last of these returns to a stub, the barrier, which brings the next. So at the
 * barrier a walk goes on in the chunks, whose frames are as they were on the stack,
 * and then where the thread of the system ran the virtual thread: at its entry, a
 * structure on the stack above the frames that were brought back (`continuationEntry.hpp`).
 * In which chunks frames are, and where, the machine's own symbols lead to.
 *
 * The links of interpreted frames there count from where they are kept, for chunks are
 * moved. Where the machine's collector marks its pointers (ZGC) they lead nowhere, and
 * the stack ends.
 */
#ifndef SYSCOLLECT_JVM_CONTINUATION_H
#define SYSCOLLECT_JVM_CONTINUATION_H

/* Between the last frame and the entry are what was passed to it, and less than 16 bytes: the places,
 * 16 bytes apart, at which an entry is looked for. */
#define JVM_ENTRY_PLACES 16
#define JVM_ENTRY_ALIGNMENT 16
/* Which of an entry's words are: the entry that this one lies in, the continuation, flags and words
 * that were passed, the saved rbp, where it returns to. */
#define JVM_ENTRY_PARENT 1
#define JVM_ENTRY_CONTINUATION 2
#define JVM_ENTRY_FLAGS 4
#define JVM_ENTRY_RBP 8
#define JVM_ENTRY_RETURNS 9
/* A virtual thread's flag is 1; at most so many words are passed. */
#define JVM_ENTRY_FLAGS_MAX 1
#define JVM_ENTRY_PASSED_MAX 255

/* In a walk: a virtual thread has one entry, unless a program runs continuations in each other. */
#define JVM_ENTRIES_OF_WALK 4

/* Chunks that are looked at in a row for one with frames, and words of one. */
#define JVM_CHUNKS 4
#define JVM_CHUNK_WORDS_MAX (1u << 20)

/* What is in the heap. */
enum { JVM_CHUNK_NONE, JVM_CHUNK_EMPTY, JVM_CHUNK_ENTERED, JVM_CHUNK_UNREADABLE };

static __always_inline __u64 jvm_continuation_offset(const struct jvm_layout *layout, int which)
{
	return (__u32)layout->continuation[which];
}

/* Reads where everything is in the process, once. */
__noinline int jvm_read_continuations(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct jvm_layout *layout = jvm_layout_of(s);
	__u32 number = layout->file;
	struct HotspotFile *file = bpf_map_lookup_elem(&hotspot_files, &number);

	if (layout->knows_continuations)
		return 1;
	if (!file || !file->continuation[CONTINUATION_BARRIER])
		return 0;
	/* Most are shorter than a word, and are masked where they are used. */
	for (int i = 0; i < CONTINUATIONS; i++) {
		if (!jvm_read(&layout->continuation[i], file->continuation[i] - layout->bias))
			return 0;
	}
	for (int i = CONTINUATION_TAIL; i <= CONTINUATION_CHUNK_STACK; i++) {
		if (!jvm_continuation_offset(layout, i) ||
		    jvm_continuation_offset(layout, i) >= JVM_OFFSET_MAX)
			return 0;
	}
	layout->knows_continuations = 1;
	return 1;
}

/* Reads a pointer of an object in the heap into `pointer`. */
static __always_inline bool jvm_read_pointer(struct scratch *s, __u64 address)
{
	struct jvm *j = &s->jvm;
	struct jvm_layout *layout = jvm_layout_of(s);

	if (!jvm_read(&j->pointer, address))
		return false;
	if (layout->continuation[CONTINUATION_COMPRESSED] & 0xff) {
		__u64 narrow = (__u32)j->pointer;

		narrow <<= layout->continuation[CONTINUATION_NARROW_SHIFT] & 31;
		j->pointer = narrow ? layout->continuation[CONTINUATION_NARROW_BASE] + narrow : 0;
	}
	return true;
}

/* Whether the entry of a continuation lies there: that into `entry`. */
__noinline int jvm_is_entry(SCRATCH, __u64 at)
{
	TAKE_SCRATCH(0);
	struct jvm *j = &s->jvm;

	if (bpf_probe_read_user(j->entry, sizeof(j->entry), (void *)at))
		return 0;
	__u64 parent = j->entry[JVM_ENTRY_PARENT], flags = j->entry[JVM_ENTRY_FLAGS];

	if ((parent && parent - at >= MAX_FRAME_BYTES) || !j->entry[JVM_ENTRY_CONTINUATION] ||
	    (__u32)flags > JVM_ENTRY_FLAGS_MAX || flags >> 32 > JVM_ENTRY_PASSED_MAX)
		return 0;
	j->returns = j->entry[JVM_ENTRY_RETURNS];
	return jvm_may_return(s);
}

/* Finds the entry of the virtual thread whose last frame on the stack returns to the barrier, and
 * its last chunk. */
__noinline int jvm_find_entry(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct jvm *j = &s->jvm;

	if (++j->entries > JVM_ENTRIES_OF_WALK || !jvm_read_continuations(GIVE_SCRATCH(s)))
		return 0;
	j->entry_at = (s->unwind.sp + JVM_ENTRY_ALIGNMENT - 1) & -(__u64)JVM_ENTRY_ALIGNMENT;
	for (int i = 0; i < JVM_ENTRY_PLACES; i++) {
		if (jvm_is_entry(GIVE_SCRATCH(s), j->entry_at)) {
			__u64 tail = jvm_continuation_offset(jvm_layout_of(s), CONTINUATION_TAIL);

			return jvm_read_pointer(s, j->entry[JVM_ENTRY_CONTINUATION] + tail);
		}
		j->entry_at += JVM_ENTRY_ALIGNMENT;
	}
	return 0;
}

/* Goes to the innermost frame of the chunk in `pointer`, if it has one; the next chunk is in
 * `pointer` then. */
__noinline int jvm_enter_chunk(SCRATCH)
{
	TAKE_SCRATCH(JVM_CHUNK_UNREADABLE);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;
	struct jvm_layout *layout = jvm_layout_of(s);
	__u64 chunk = j->pointer;

	if (!chunk)
		return JVM_CHUNK_NONE;
	/* An empty one brings no frame, so that only this counts it. */
	if (++j->steps > JVM_STEPS_OF_WALK)
		return JVM_CHUNK_UNREADABLE;
	if (!jvm_read(&j->low, chunk + jvm_continuation_offset(layout, CONTINUATION_CHUNK_SP)) ||
	    !jvm_read(&j->high, chunk + jvm_continuation_offset(layout, CONTINUATION_CHUNK_BOTTOM)) ||
	    !jvm_read(&j->returns, chunk + jvm_continuation_offset(layout, CONTINUATION_CHUNK_PC)) ||
	    !jvm_read_pointer(s, chunk + jvm_continuation_offset(layout, CONTINUATION_CHUNK_PARENT)))
		return JVM_CHUNK_UNREADABLE;
	__u64 sp = (__u32)j->low, bottom = (__u32)j->high;

	if (sp > bottom || bottom > JVM_CHUNK_WORDS_MAX)
		return JVM_CHUNK_UNREADABLE;
	if (sp == bottom)
		return JVM_CHUNK_EMPTY;
	if (!jvm_may_return(s))
		return JVM_CHUNK_UNREADABLE;
	chunk += jvm_continuation_offset(layout, CONTINUATION_CHUNK_STACK);
	j->chunk_end = chunk + bottom * 8;
	j->link_shift = 3;
	j->link_base = ~0ULL;
	u->sp = chunk + sp * 8;
	u->ip = j->returns;
	/* Below it lies what its callee, which is on the stack, had of its link. */
	if (!jvm_read(&j->low, u->sp - 16))
		return JVM_CHUNK_UNREADABLE;
	u->bp = JVM_LINK(j, j->low, u->sp - 16);
	return JVM_CHUNK_ENTERED;
}

/* Whether the frame to which the walk has gone is not there: it is in the heap, or behind what is. */
static __always_inline bool jvm_leaves_part(const struct scratch *s)
{
	const struct jvm *j = &s->jvm;

	return (j->barrier && s->unwind.ip == j->barrier) ||
	       (j->chunk_end && (s->unwind.sp >= j->chunk_end || !s->unwind.ip));
}

/* Goes from there to the frame that is next. */
__noinline int jvm_step_continuation(SCRATCH)
{
	TAKE_SCRATCH(STACK_NO_UNWIND_INFORMATION);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;

	look_elsewhere(u);
	j->barrier = 0;
	if (!j->chunk_end && !jvm_find_entry(GIVE_SCRATCH(s)))
		return STACK_NO_UNWIND_INFORMATION;
	for (int i = 0; i < JVM_CHUNKS; i++) {
		int chunk = jvm_enter_chunk(GIVE_SCRATCH(s));

		if (chunk == JVM_CHUNK_ENTERED)
			return UNWIND_GOES_ON;
		if (chunk == JVM_CHUNK_UNREADABLE)
			return STACK_NO_UNWIND_INFORMATION;
		if (chunk == JVM_CHUNK_NONE) {
			j->chunk_end = 0;
			j->link_shift = 0;
			j->link_base = 0;
			u->sp = j->entry_at + sizeof(j->entry);
			u->bp = j->entry[JVM_ENTRY_RBP];
			u->ip = j->entry[JVM_ENTRY_RETURNS];
			return UNWIND_GOES_ON;
		}
	}
	return STACK_NO_UNWIND_INFORMATION;
}

#endif
