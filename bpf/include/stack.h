/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Stacks are sent once: walk, hash, and if a stack with that hash went out
 * before, send its id only.
 *
 * The memory of what went out is a direct-mapped cache per CPU and context; a
 * stack that another one pushed out is sent again under a new id. An id is
 * given out only after the frames are in the stack lane, and the collector
 * reads the events' lane first: it never sees an id without its frames.
 */
#ifndef SYSCOLLECT_STACK_H
#define SYSCOLLECT_STACK_H

#include "clock.h"
#include "known_walk.h"
#include "python.h"
#include "stack_memory.h"
#include "unwind.h"

#define KNOWN_STACKS 8192

struct known_stack {
	__u64 hash;
	__u32 id;
	/* Whose it is, 0 for the kernel's: no program's stack passes as another's, whatever its hash. */
	__u32 tgid;
};

#define DEFINE_STACK_CACHE(context)                                    \
	struct {                                                       \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);               \
		__uint(key_size, 4);                                   \
		__uint(value_size, sizeof(struct known_stack));        \
		__uint(max_entries, KNOWN_STACKS);                     \
	} context##_stacks SEC(".maps");

DEFINE_STACK_CACHE(sched)
DEFINE_STACK_CACHE(sample)

/* Where the kernel has saved the registers of a task that has entered it, for kernels without
 * bpf_task_pt_regs. Only to be read by probing reads. */
static __always_inline struct sample_context *saved_registers(struct task_struct *task)
{
	__u64 stack = (__u64)BPF_CORE_READ(task, stack);

	return (void *)(stack + KERNEL_STACK_SIZE - sizeof(struct sample_context));
}

/* Everything that walking and sending needs, of one context. */
struct stack_writer {
	struct LaneHeader *lane;
	__u8 *data;
	struct scratch *scratch;
	void *known;
	__u64 ticks;
};

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

/* A stack that was walked: how many frames are in the scratch, and of Python; whose it is, STACK_*,
 * and why outer frames are missing. */
struct walked {
	__u32 count, python, tgid, ending;
	__u16 space;
};

/* Writes the scratch's frames as a definition; its id, or STACK_LOST. */
static __always_inline __u32 send_stack(struct stack_writer *w, struct walked walked)
{
	__u32 count = walked.count, python = walked.python;
	__u32 bytes = sizeof(struct StackHeader) + (count + python) * 8;

	if (!lane_has_room(w->lane, STACK_LANE_BYTES, bytes)) {
		w->lane->statistics[STATISTIC_STACKS_LOST]++;
		lane_count_full(w->lane, KIND_STACK);
		return STACK_LOST;
	}
	__u64 head = w->lane->head;
	struct StackHeader *header = lane_at(w->data, head, STACK_LANE_BYTES);
	__u32 id = w->lane->last_stack + 1;

	header->stamp = stamp(w->ticks, KIND_STACK);
	header->id = id;
	header->tgid = walked.tgid;
	header->frames = count + python;
	header->space = walked.space;
	header->truncated = walked.ending;
	count &= 127;
	bpf_probe_read_kernel(header + 1, count * 8, w->scratch->frames);
	python &= 127;
	if (UNWIND_TABLES && python)
		bpf_probe_read_kernel((__u64 *)(header + 1) + count, python * 8, w->scratch->python.frames);
	w->lane->last_stack = id;
	w->lane->statistics[STATISTIC_STACKS_SENT]++;
	lane_publish(w->lane, head + bytes);
	return id;
}

/* The id of the stack in the scratch, sent if it is not known. */
static __always_inline __u32 stack_id(struct stack_writer *w, __u64 hash, struct walked walked)
{
	__u32 slot = (hash >> 32) & (KNOWN_STACKS - 1);
	struct known_stack *known = bpf_map_lookup_elem(w->known, &slot);

	if (!known)
		return STACK_NONE;
	w->lane->statistics[STATISTIC_STACKS]++;
	if (known->hash == hash && known->tgid == walked.tgid)
		return known->id;
	__u32 id = send_stack(w, walked);

	/* One that refers to what was not sent is sent again. */
	if (id != STACK_LOST && !(walked.python && w->scratch->python.lost)) {
		known->hash = hash;
		known->id = id;
		known->tgid = walked.tgid;
	}
	return id;
}

/* The helper's walk of a kernel stack ends at its end. Nobody knows how that of a user stack ended:
 * its frame pointers led no further. */
static __always_inline struct walked walked_by_helper(__u32 count, __u32 tgid, __u16 space)
{
	__u32 ending = space == STACK_USER ? STACK_FRAME_POINTERS : 0;

	return (struct walked){ .count = count,
				.tgid = tgid,
				.ending = count == MAX_FRAMES ? STACK_TOO_DEEP : ending,
				.space = space };
}

/* Walks a user stack by frame pointers, in windows so that few reads do. The chain has ended where
 * rbp was saved as 0, or nothing called; one that does not rise, is not aligned or jumps too far is
 * none, and what it lacks nobody knows. */
static __always_inline __u32 user_stack_walked(struct stack_writer *w, __u64 ip, __u64 sp,
					       __u64 bp, __u32 tgid, __u64 exec_id)
{
	struct scratch *s = w->scratch;
	__u64 hash = mix(address_space_hash(tgid, exec_id), ip);
	__u64 lowest = sp;
	__u32 count = 1;
	/* By way of the scratch, as in frames_found. */
	volatile __u32 *how = &s->unwind.ending;

	s->frames[0] = ip;
	s->window_bytes = 0;
	*how = STACK_TOO_DEEP;
	for (int i = 1; i < MAX_FRAMES; i++) {
		if (bp < lowest || bp - lowest > MAX_FRAME_BYTES || bp & 7) {
			/* In the innermost frame rbp holds whatever the function keeps there. */
			*how = !bp && i > 1 ? UNWIND_WHOLE : STACK_FRAME_POINTERS;
			break;
		}
		__u64 offset = bp - s->window_start;

		if (offset + 16 > s->window_bytes || offset > USER_WINDOW_BYTES) {
			offset = 0;
			if (!read_window(s, bp)) {
				w->lane->statistics[STATISTIC_USER_UNREADABLE]++;
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
	__u32 ending = *how;

	w->lane->statistics[STATISTIC_USER_WALKS + (ending & 7)]++;
	if (ending == UNWIND_WHOLE)
		ending = 0;
	struct walked walked = { .count = count, .tgid = tgid, .ending = ending, .space = STACK_USER };

	return stack_id(w, mix(hash, ending), walked);
}

/* Sends the stack in the scratch, though it may be known, and what lies in memory from the frame of
 * the walk on. */
static __always_inline __u32 send_with_memory(struct stack_writer *w, struct walked walked,
					      struct memory_share *share)
{
	__u32 id = send_stack(w, walked);

	w->lane->statistics[STATISTIC_STACKS]++;
	if (id != STACK_LOST) {
		w->lane->statistics[STATISTIC_STACK_MEMORY]++;
		w->scratch->unwind.stack = id;
		unwind_send_memory(GIVE_SCRATCH(w->scratch));
		if (share)
			share->room -= w->scratch->unwind.sent;
	}
	return id;
}

/* A walk begins at the innermost frame. */
static __always_inline void unwind_begin(struct unwind *u, __u64 ip, __u64 sp, __u64 bp,
					 __u64 registers)
{
	u->ip = ip;
	u->sp = sp;
	u->bp = bp;
	u->reached = FRAME_RUNNING;
	*(volatile __u64 *)&u->registers = registers;
	begin_words(u);
}

/* Walks a user stack by unwind tables. `registers` is where the kernel has saved all of them, 0
 * where nobody knows; `mm` is the process's. */
static __always_inline __u32 user_stack_unwound(struct stack_writer *w, __u64 ip, __u64 sp,
						__u64 bp, __u64 registers, struct mm_struct *mm, __u32 context, __u32 tgid, __u64 exec_id)
{
	struct scratch *s = w->scratch;
	struct unwind *u = &s->unwind;
	__u64 walks = ++u->walks;
	__u32 word = UNWIND_EPOCH;
	__u64 *epoch = bpf_map_lookup_elem(&unwind_words, &word);

	u->epoch = epoch ? *epoch : 0;
	unwind_begin(u, ip, sp, bp, registers);
	u->context = context;
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
	struct known_walk *known = context == CONTEXT_SCHED ? known_walk_of(u) : 0;
	bool is_checked = CROSS_CHECK && !(walks % CROSS_CHECK);
	bool is_known = known && KNOWN_WALK_STANDS(s, known);

	if (is_known && !is_checked) {
		w->lane->statistics[STATISTIC_USER_SLOT_HITS]++;
		w->lane->statistics[STATISTIC_STACKS]++;
		w->lane->statistics[STATISTIC_USER_WALKS + (known->ending & 7)]++;
		return known->id;
	}
	unwind_walk(GIVE_SCRATCH(s));
	if (is_known) {
		w->lane->statistics[STATISTIC_USER_CROSS_CHECKED]++;
		if (u->hash != known->hash)
			w->lane->statistics[STATISTIC_USER_CROSS_DIFFERENT]++;
	}
	s->python.count = 0;
	if (s->python.file) {
		s->python.ticks = w->ticks;
		s->python.tgid = tgid;
		python_walk(GIVE_SCRATCH(s));
	}
	__u64 count = *(volatile __u64 *)&s->count, python = *(volatile __u64 *)&s->python.count;
	__u32 ending = u->ending;

	if (count > MAX_FRAMES || python > MAX_FRAMES)
		return STACK_NONE;
	w->lane->statistics[STATISTIC_USER_WALKS + (ending & 7)]++;
	/* Two such stacks with the same frames need not have the same callers: each goes out. */
	struct memory_share *share = ending == STACK_NO_TABLE_YET ? memory_share(context, w->ticks) : 0;
	bool is_sent = share;

	if (ending == UNWIND_WHOLE)
		ending = 0;
	struct walked walked = {
		.count = count, .python = python, .tgid = tgid, .ending = ending, .space = STACK_USER
	};

	/* Others are walked again from their first frame on, and compared. */
	if (is_checked && ending != STACK_NO_TABLE_YET) {
		unwind_begin(u, ip, sp, bp, registers);
		is_sent = true;
	}
	/* Where nothing can be read the stack is one like others, of which the next is the same. */
	if (is_sent && !(u->sp & 7) && !bpf_probe_read_user(&u->word, 8, (void *)u->sp))
		return send_with_memory(w, walked, share);
	__u32 id = stack_id(w, u->hash, walked);

	if (known && id != STACK_LOST)
		remember_walk(s, known, ip, sp, bp, id);
	return id;
}

/* The kernel's own walk, for kernels where the one above cannot be had, for
 * kernel stacks that no slots answer, and as the cross-check of those that did.
 * Returns how many frames are in the scratch. */
static __always_inline __u32 walk_with_helper(void *context, struct scratch *s, __u64 flags)
{
	long bytes = bpf_get_stack(context, s->frames, MAX_FRAMES * 8, flags);

	return bytes <= 0 ? 0 : (__u64)bytes >> 3;
}

static __always_inline __u64 hash_frames(struct scratch *s, __u32 *count, __u64 hash)
{
	__u32 frames = *count;

	*(volatile __u64 *)&s->count = frames;
	for (__u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= frames)
			break;
		hash = mix(hash, s->frames[i]);
	}
	*count = *(volatile __u64 *)&s->count;
	return hash;
}

static __always_inline __u32 user_stack_helped(void *context, struct stack_writer *w, __u32 tgid,
					       __u64 exec_id)
{
	__u32 count = walk_with_helper(context, w->scratch, BPF_F_USER_STACK);

	if (!count)
		return STACK_NONE;
	__u64 hash = hash_frames(w->scratch, &count, address_space_hash(tgid, exec_id));

	return stack_id(w, hash, walked_by_helper(count, tgid, STACK_USER));
}

static __always_inline __u32 kernel_stack_helped(void *context, struct stack_writer *w)
{
	__u32 count = walk_with_helper(context, w->scratch, 0);

	if (!count)
		return STACK_NONE;
	__u64 hash = hash_frames(w->scratch, &count, HASH_SECRET);

	return stack_id(w, hash, walked_by_helper(count, 0, STACK_KERNEL));
}

#endif
