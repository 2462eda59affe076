/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How a walk of a user stack begins, and the walk by frame pointers: what walks
 * of switches, samples and hits of probes have in common beside unwind.h.
 */
#ifndef SYSCOLLECT_WALK_H
#define SYSCOLLECT_WALK_H

#include "unwind.h"

/* Two words that tell address spaces apart: the process, and which program it runs. Nobody can
 * choose frames whose hash is that of another's. */
static __always_inline __u64 address_space_hash(__u32 tgid, __u64 exec_id)
{
	return mix(mix(HASH_MULTIPLIER ^ HASH_SECRET, tgid), exec_id);
}

/* The number of frames that a walk has found, by way of the scratch. In a register the verifier
 * knows it exactly after each turn of a loop, and follows all that comes after the loop once for
 * each of 127 numbers: that took longer than everything else when a recording starts. */
static __always_inline __u32 frames_found(struct scratch *s, __u64 count)
{
	*(volatile __u64 *)&s->count = count;
	return *(volatile __u64 *)&s->count;
}

/* A walk by frame pointers: how many frames are in the scratch, how it ended, and their hash. */
struct linked {
	__u32 count, ending;
	__u64 hash;
};

/* Walks a user stack by frame pointers, in windows so that few reads do. At a function's first
 * instruction rbp is still its caller's, and the word on top of the stack leads to that. The chain
 * has ended where rbp was saved as 0, or nothing called; one that does not rise, is not aligned or
 * jumps too far is none, and what it lacks nobody knows. */
static __always_inline struct linked walk_by_frame_pointers(struct scratch *s, __u64 ip, __u64 sp,
							    __u64 bp, __u64 hash, bool is_entry,
							    __u64 *unreadable)
{
	__u64 lowest = sp;
	__u32 count = 1;
	int first = 1;
	/* By way of the scratch, as in frames_found. */
	volatile __u32 *how = &s->unwind.ending;

	s->frames[0] = ip;
	s->window_bytes = 0;
	*how = STACK_TOO_DEEP;
	if (is_entry && !bpf_probe_read_user(&s->unwind.word, 8, (void *)sp) && s->unwind.word) {
		s->frames[1] = s->unwind.word;
		hash = mix(hash, s->unwind.word);
		lowest = sp + 8;
		count = first = 2;
	}
	for (int i = first; i < MAX_FRAMES; i++) {
		if (bp < lowest || bp - lowest > MAX_FRAME_BYTES || bp & 7) {
			/* In the innermost frame rbp holds whatever the function keeps there. */
			*how = !bp && i > first ? UNWIND_WHOLE : STACK_FRAME_POINTERS;
			break;
		}
		__u64 offset = bp - s->window_start;

		if (offset + 16 > s->window_bytes || offset > USER_WINDOW_BYTES) {
			offset = 0;
			if (!read_window(s, bp)) {
				(*unreadable)++;
				*how = STACK_UNREADABLE;
				break;
			}
		}
		offset >>= 3;
		offset &= USER_WINDOW_BYTES / 8 - 1;
		barrier_var(offset);
		__u64 caller_bp = s->window[offset];
		__u64 return_address = s->window[offset + 1];

		if (!return_address) {
			*how = UNWIND_WHOLE;
			break;
		}
		s->frames[i] = return_address;
		hash = mix(hash, return_address);
		count++;
		lowest = bp + 16;
		bp = caller_bp;
	}
	count = frames_found(s, count);
	return (struct linked){ .count = count, .ending = *how, .hash = hash };
}

/* A walk begins at the innermost frame. */
static __always_inline void unwind_begin(struct unwind *u, __u64 ip, __u64 sp, __u64 bp,
					 __u64 registers)
{
	u->ip = ip;
	u->sp = sp;
	u->bp = bp;
	u->reached = FRAME_RUNNING;
	u->ends_at_guess = 0;
	*(volatile __u64 *)&u->registers = registers;
	begin_words(u);
}

/* One more walk, of this process as it is mapped now; how many there were, this one included. */
static __always_inline __u64 unwind_look_at_space(struct unwind *u, struct mm_struct *mm,
						  __u32 tgid, __u64 exec_id)
{
	__u64 walks = ++u->walks;
	__u32 word = UNWIND_EPOCH;
	__u64 *epoch = bpf_map_lookup_elem(&unwind_words, &word);

	u->epoch = epoch ? *epoch : 0;
	*(volatile __u64 *)&u->mm = (__u64)mm;
	u->generation = mappings_generation(mm);
	/* Above the kernel's count, of 32 bits, is the epoch; without the first, what is kept is this
	 * walk's alone. */
	if (u->generation)
		u->generation |= (u->epoch & 0x3fffff) << 40;
	else
		u->generation = walks << 1 | 1ULL << 63;
	u->hash = address_space_hash(tgid, exec_id);
	u->space = mix(u->hash, u->mm);
	return walks;
}

#endif
