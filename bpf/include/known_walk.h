/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * User stacks of threads that stand as they did before, without walking them.
 *
 * A thread that blocks, or wakes another, mostly does so where it did last time.
 * Where a walk goes depends on the registers that it begins with, the rows of
 * the process as it is mapped, and the words of the stack that it reads. So, for
 * each start, remember the words' places and a hash of what they held: if all of
 * it is the same, the stack is, too. Nothing is guessed. A walk that looked at
 * anything else (registers that calls do not keep, code, an interpreter's
 * frames, memory that could not be read) is not remembered.
 *
 * CROSS_CHECK walks every Nth and counts those that differ from what was
 * remembered; none has been seen.
 */
#ifndef SYSCOLLECT_KNOWN_WALK_H
#define SYSCOLLECT_KNOWN_WALK_H

#include "unwind.h"

/* Of one CPU. */
#define KNOWN_WALKS 1024

struct known_walk {
	/* The process as it is mapped, as in the other caches, and the innermost frame. */
	__u64 space, generation, ip, sp, bp;
	/* Where the last of the words ends. */
	__u64 end;
	/* Of the words that were read, and of the frames as stack_id knows them. */
	__u64 words_hash, hash;
	__u32 id;
	/* How many words. */
	__u16 words;
	/* How the walk ended; and whether it guessed, which is of no use once it is known that the
	 * process has a machine of Java's (jvm_was_guessed). */
	__u16 ending;
	/* Where they lie, in words above sp, in the order in which they are read. */
	__u16 places[KNOWN_WALK_WORDS];
};

/* Where the collector forgets it (ebpf/known_stacks.rs). */
_Static_assert(__builtin_offsetof(struct known_walk, id) == 64, "the id's place");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct known_walk));
	__uint(max_entries, KNOWN_WALKS);
} sched_walks SEC(".maps");

/* Where a walk from the frame in the scratch is kept. */
static __always_inline struct known_walk *known_walk_of(struct unwind *u)
{
	__u32 slot = (mix(u->space ^ u->sp, u->ip) >> 32) & (KNOWN_WALKS - 1);

	return bpf_map_lookup_elem(&sched_walks, &slot);
}

#define KNOWN_WALK_GUESSED 0x8000

/* Most stacks are read at once: a call costs as much as a KiB. */
#define KNOWN_WALK_WINDOW STACK_MEMORY_PART_BYTES

/* Whether the stack's words are those of that walk. */
#ifdef SCRATCH_BY_NUMBER
#define KNOWN_WALK_STANDS(s, known) known_walk_stands(GIVE_SCRATCH(s))
__noinline int known_walk_stands(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct known_walk *known = known_walk_of(&s->unwind);
#else
#define KNOWN_WALK_STANDS(s, known) known_walk_stands(s, known)
__noinline int known_walk_stands(SCRATCH, struct known_walk *known)
{
	TAKE_SCRATCH(0);
#endif
	if (!known)
		return 0;
	struct unwind *u = &s->unwind;
	__u64 sp = u->sp, hash = 0;

	if (known->ip != u->ip || known->sp != sp || known->bp != u->bp || known->space != u->space ||
	    known->generation != u->generation || sp & 7)
		return 0;
	if (known->ending & KNOWN_WALK_GUESSED && jvm_is_noted(u))
		return 0;
	s->window_bytes = 0;
	for (int i = 0; i < KNOWN_WALK_WORDS; i++) {
		if (i >= known->words)
			break;
		__u64 address = sp + known->places[i] * 8, offset = address - s->window_start;

		if (offset >= s->window_bytes) {
			if (!read_window_of(s, address, known->end - address, KNOWN_WALK_WINDOW))
				return 0;
			offset = 0;
		}
		offset >>= 3;
		offset &= KNOWN_WALK_WINDOW / 8 - 1;
		barrier_var(offset);
		hash = mix(hash, s->window[offset]);
	}
	return hash == known->words_hash;
}

/* Remembers the walk from this frame that has just ended, if another from there would go the same
 * way. */
static __always_inline void remember_walk(struct scratch *s, struct known_walk *known, __u64 ip,
					  __u64 sp, __u64 bp, __u32 id)
{
	struct unwind *u = &s->unwind;

	if (u->words > KNOWN_WALK_WORDS || u->last > 0xffff || u->generation >> 63 || s->python.file ||
	    u->ending == STACK_NO_TABLE_YET)
		return;
	known->space = 0;
	known->generation = u->generation;
	known->ip = ip;
	known->sp = sp;
	known->bp = bp;
	known->end = sp + (u->last + 1) * 8;
	known->words_hash = u->words_hash;
	known->hash = u->hash;
	known->id = id;
	known->words = u->words;
	known->ending = u->ending | (s->jvm.was_guessed ? KNOWN_WALK_GUESSED : 0);
	bpf_probe_read_kernel(known->places, sizeof(known->places), u->places);
	known->space = u->space;
}

#endif
