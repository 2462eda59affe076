/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A stack that ends because a table was not made yet is sent as it lies in
 * memory, from the last frame that was found: when the recording stops, and all
 * tables can be made, the rest of it is unwound. So the first moments of a
 * recording, and of a program, are as whole as the last. With it goes where the
 * code lies that has no table: the collector makes those of all callers in it,
 * which walks would ask for one by one.
 *
 * Where it is known where the stack begins, its outermost frames are sent, too,
 * though there be more in between than is sent: a single frame may be that large.
 * What has never been touched, as most of such a frame, is left out.
 *
 * That is dear, and rare. Each user has a share of it on each CPU, in each
 * context: whose programs never get tables cannot have it all.
 */
#ifndef SYSCOLLECT_STACK_MEMORY_H
#define SYSCOLLECT_STACK_MEMORY_H

#include "unwind.h"
#include "users.h"

/* The collector sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} stack_memory SEC(".maps");

/* In which lane the stack lies that a walk of this context sends. */
#ifdef WALK_SLOTS
#define MEMORY_OF(context) MEMORY_OF_PROBE
#else
#define MEMORY_OF(context) ((context) == CONTEXT_SAMPLE ? MEMORY_OF_SAMPLE : MEMORY_OF_SCHED)
#endif

struct stack_memory_part {
	struct StackMemoryHeader header;
	__u8 bytes[STACK_MEMORY_PART_BYTES];
};

/* What a user may still have, in bytes, and when that was counted. */
struct memory_share {
	__u64 ticks;
	__u64 room;
};

#define MEMORY_SHARE_BYTES (32u << 20)
/* A byte in so many ticks, as a shift: some 1 to 2 MB in a second. */
#define MEMORY_SHARE_TICKS 11

#define STACK_MEMORY_PARTS_MAX (STACK_MEMORY_PARTS + STACK_MEMORY_TOP_PARTS)
/* A stack that begins further up than this, bytes, begins elsewhere. */
#define MAX_STACK_BYTES (64u << 20)
#define UNKNOWN_TOP ~0ULL

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct memory_share));
	__uint(max_entries, USER_SHARES * 2);
} memory_shares SEC(".maps");

/* The share of the current task's user, if a stack may still be sent of it. */
static __always_inline struct memory_share *memory_share(__u32 context, __u64 ticks)
{
	__u32 index = user_share(bpf_get_current_uid_gid()) + (context & 1) * USER_SHARES;
	struct memory_share *share = bpf_map_lookup_elem(&memory_shares, &index);
	const __u64 needed = STACK_MEMORY_PARTS_MAX * sizeof(struct stack_memory_part);

	if (!share)
		return 0;
	__u64 grown = (ticks - share->ticks) >> MEMORY_SHARE_TICKS;

	if (grown) {
		__u64 room = share->room + grown;

		share->room = room > MEMORY_SHARE_BYTES ? MEMORY_SHARE_BYTES : room;
		share->ticks = ticks;
	}
	return share->room < needed ? 0 : share;
}

/* Where the current thread's stack begins, if the frame that the walk has reached is on it: the
 * kernel knows that of a program's first thread; at the top of others' stacks C libraries keep what
 * they have of a thread. UNKNOWN_TOP on stacks that a program made for itself. Into `u->top`. */
__noinline int unwind_find_top(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 first = BPF_CORE_READ(task, mm, start_stack), other = BPF_CORE_READ(task, THREAD_NUMBER);

	u->top = UNKNOWN_TOP;
	if (first - u->sp < MAX_STACK_BYTES)
		u->top = first;
	else if (other - u->sp < MAX_STACK_BYTES)
		u->top = other;
	return 0;
}

/* Where the parts begin that are sent of the outermost frames. */
static __always_inline __u64 outermost_parts(const struct unwind *u)
{
	return ((u->top - 1) | (STACK_MEMORY_PART_BYTES - 1)) + 1 -
	       STACK_MEMORY_TOP_PARTS * STACK_MEMORY_PART_BYTES;
}

/* Sends the part of the stack that begins at `u->part`, which is behind it then; whether others may
 * follow. A function of its own: the verifier looks at it once, and not in each step of a loop. */
__noinline int unwind_send_part(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	__u64 start = u->part;
	__u64 bytes = STACK_MEMORY_PART_BYTES - (start & (STACK_MEMORY_PART_BYTES - 1));

	if (start >= u->top)
		return 0;
	u->sent += sizeof(struct stack_memory_part);
	/* Before the ring is asked: what is discarded there takes room as well. */
	if (bpf_probe_read_user(s->window, bytes, (void *)start)) {
		/* No other part of the page can be read either. */
		u->part = (start | 4095) + 1;
		return u->top != UNKNOWN_TOP;
	}
	struct stack_memory_part *part = bpf_ringbuf_reserve(&stack_memory, sizeof(*part), 0);

	if (!part)
		return 0;
	bpf_probe_read_kernel(part->bytes, STACK_MEMORY_PART_BYTES, s->window);
	part->header.cpu = bpf_get_smp_processor_id();
	part->header.of = MEMORY_OF(u->context);
	part->header.id = u->stack;
	part->header.uid = bpf_get_current_uid_gid();
	part->header.reached = u->reached;
	part->header.returns_at_sp = u->returns_at_sp;
	part->header.bytes = bytes;
	part->header.ip = u->ip;
	part->header.sp = u->sp;
	part->header.bp = u->bp;
	part->header.start = start;
	part->header.file = u->file;
	part->header.code_start = u->code_start;
	part->header.code_end = u->code_end;
	part->header.code_bias = u->code_bias;
	bpf_probe_read_kernel(part->header.registers, sizeof(u->saved), u->saved);
	bpf_ringbuf_submit(part, BPF_RB_NO_WAKEUP);
	u->part = start + bytes;
	return 1;
}

/* Sends the stack from where the walk in the scratch has ended, up to its end or what is sent at
 * most; `u->stack` is the stack's id. For how many bytes of the ring memory was looked at is in
 * `u->sent`: that is what a share is charged, however little a stack has. */
__noinline int unwind_send_memory(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;

	u->returns_at_sp = unwind_returns_at_sp(GIVE_SCRATCH(s));
	unwind_find_top(GIVE_SCRATCH(s));
	u->sent = 0;
	u->part = u->sp;
	/* What cannot be read is 0. */
	if (u->reached == FRAME_INTERRUPTED)
		bpf_probe_read_user(u->saved, sizeof(u->saved), (void *)u->registers);
	else
		bpf_probe_read_kernel(u->saved, sizeof(u->saved), (void *)(stands(u) ? u->registers : 0));

	for (int i = 0; i < STACK_MEMORY_PARTS_MAX; i++) {
		if (i == STACK_MEMORY_PARTS) {
			if (u->top == UNKNOWN_TOP)
				break;
			if (u->part < outermost_parts(u))
				u->part = outermost_parts(u);
		}
		if (!unwind_send_part(GIVE_SCRATCH(s)))
			break;
	}
	return 0;
}

#endif
