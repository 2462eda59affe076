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
#include "stack_lane.h"
#include "stack_memory.h"
#include "walk.h"

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

/* Everything that walking and sending needs, of one context: the lane with its bytes, the shares of
 * users in it, if they have such. */
struct stack_writer {
	struct LaneHeader *lane;
	__u8 *data;
	__u32 lane_bytes;
	void *shares;
	struct scratch *scratch;
	void *known;
	__u64 ticks;
};

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

	if (!stack_has_room(w->lane, w->lane_bytes, w->shares, bytes))
		return STACK_LOST;
	__u64 head = w->lane->head;
	struct StackHeader *header = lane_at(w->data, head, w->lane_bytes);
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

static __always_inline __u32 user_stack_walked(struct stack_writer *w, __u64 ip, __u64 sp,
					       __u64 bp, __u32 tgid, __u64 exec_id)
{
	struct scratch *s = w->scratch;
	__u64 *unreadable = &w->lane->statistics[STATISTIC_USER_UNREADABLE];
	__u64 hash = mix(address_space_hash(tgid, exec_id), ip);
	struct linked walk = walk_by_frame_pointers(s, ip, sp, bp, hash, false, unreadable);

	w->lane->statistics[STATISTIC_USER_WALKS + (walk.ending & 7)]++;
	if (walk.ending == UNWIND_WHOLE)
		walk.ending = 0;
	struct walked walked = {
		.count = walk.count, .tgid = tgid, .ending = walk.ending, .space = STACK_USER
	};

	return stack_id(w, mix(walk.hash, walk.ending), walked);
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

/* Walks a user stack by unwind tables. `registers` is where the kernel has saved all of them, 0
 * where nobody knows; `mm` is the process's. */
static __always_inline __u32 user_stack_unwound(struct stack_writer *w, __u64 ip, __u64 sp,
						__u64 bp, __u64 registers, struct mm_struct *mm, __u32 context, __u32 tgid, __u64 exec_id)
{
	struct scratch *s = w->scratch;
	struct unwind *u = &s->unwind;

	unwind_begin(u, ip, sp, bp, registers);
	u->context = context;
	__u64 walks = unwind_look_at_space(u, mm, tgid, exec_id);
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
	if (jvm_was_guessed(s)) {
		unwind_begin(u, ip, sp, bp, registers);
		u->ends_at_guess = !jvm_is_noted(u);
		u->hash = address_space_hash(tgid, exec_id);
		unwind_walk(GIVE_SCRATCH(s));
	}
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
