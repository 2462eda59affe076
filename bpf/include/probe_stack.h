/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * User stacks of hits of probes: who calls a function.
 *
 * The walks are those of samples. But hits are preempted, and others come on
 * their CPU meanwhile: so what a walk works with and remembers belongs to the
 * slot that the hit has claimed (probe.h), and what it sends goes in one call to
 * the ring that has the CPU's hits, before the first hit that refers to it. Ids
 * of all slots of a CPU are different.
 */
#ifndef SYSCOLLECT_PROBE_STACK_H
#define SYSCOLLECT_PROBE_STACK_H

#include "hit_share.h"

static __always_inline struct probe_scratch *hit_of(__u32 slot)
{
	return bpf_map_lookup_elem(&probe_scratches, &slot);
}

#define record_of(s) probe_record((s)->unwind.context)
#define send_record(s, bytes) probe_send_record((s)->unwind.context, bytes)

/* Where a record is made before it is sent: the hit itself is not written yet. */
static __always_inline __u8 *probe_record(__u32 slot)
{
	struct probe_scratch *hit = hit_of(slot);

	return hit ? hit->bytes : 0;
}

/* Sends the record that was made; whether there was room. */
__noinline int probe_send_record(__u32 slot, __u64 bytes)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct probe_cpu *here = bpf_map_lookup_elem(&probe_cpus, &cpu);
	void *ring = bpf_map_lookup_elem(&probe_rings, &cpu);
	struct probe_scratch *hit = hit_of(slot);

	if (!here || !ring || !hit)
		return 0;
	bytes &= PROBE_RECORD_BYTES - 1;
	if (!hit_in_share(ring, bytes, true))
		return 0;
	/* The verifier of 6.12 does not keep the bound across the call. */
	barrier_var(bytes);
	bytes &= PROBE_RECORD_BYTES - 1;
	if (!bpf_ringbuf_output(ring, hit->bytes, bytes, BPF_RB_NO_WAKEUP))
		return 1;
	count_one(here->stacks_full);
	return 0;
}

#include "python.h"
#include "stack_memory.h"
#include "walk.h"

/* In a cookie: hits have stacks, and stand at their function's first instruction. */
#define COOKIE_STACK (1ULL << 63)
#define COOKIE_ENTRY (1ULL << 62)

/* Of one slot. */
#define KNOWN_STACKS 4096

struct known_stack {
	__u64 hash;
	__u32 id;
	/* Whose it is: no program's stack passes as another's, whatever its hash. */
	__u32 tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct known_stack));
	__uint(max_entries, KNOWN_STACKS * WALK_SLOTS);
} probe_stacks SEC(".maps");

/* Sends the stack in the scratch; its id, or STACK_LOST. */
__noinline int probe_send_stack(SCRATCH)
{
	struct scratch *s = scratch_of(scratch_context);
	struct probe_scratch *hit = hit_of(scratch_context);

	if (!s || !hit)
		return STACK_LOST;
	struct StackHeader *header = (void *)hit->bytes;
	__u64 count = s->count & 127, python = s->python.count & 127;
	__u32 id = (hit->last_stack + 1) << 2 | hit->slot;
	__u32 ending = s->unwind.ending;

	barrier_var(count);
	barrier_var(python);
	header->stamp = stamp(hit->ticks, KIND_STACK);
	header->id = id;
	header->tgid = bpf_get_current_pid_tgid() >> 32;
	header->frames = count + python;
	header->space = STACK_USER;
	header->truncated = ending == UNWIND_WHOLE ? 0 : ending;
	bpf_probe_read_kernel(header + 1, count * 8, s->frames);
	bpf_probe_read_kernel((__u64 *)(header + 1) + count, python * 8, s->python.frames);
	if (!probe_send_record(scratch_context, sizeof(*header) + (count + python) * 8))
		return STACK_LOST;
	hit->last_stack++;
	return id;
}

/* The id of the stack in the scratch, sent if it is not known. */
__noinline int probe_stack_id(SCRATCH)
{
	struct scratch *s = scratch_of(scratch_context);

	if (!s)
		return STACK_NONE;
	__u64 hash = s->unwind.hash;
	__u32 place = (hash >> 32) & (KNOWN_STACKS - 1), tgid = bpf_get_current_pid_tgid() >> 32;

	place += scratch_context % WALK_SLOTS * KNOWN_STACKS;
	struct known_stack *known = bpf_map_lookup_elem(&probe_stacks, &place);

	if (!known)
		return STACK_NONE;
	if (known->hash == hash && known->tgid == tgid)
		return known->id;
	__u32 id = probe_send_stack(scratch_context);

	/* One that refers to what was not sent is sent again. */
	if (id != STACK_LOST && !(s->python.count && s->python.lost)) {
		known->hash = hash;
		known->id = id;
		known->tgid = tgid;
	}
	return id;
}

/* By unwind tables. */
__noinline int probe_unwind(SCRATCH)
{
	TAKE_SCRATCH(STACK_NONE);
	struct probe_scratch *hit = hit_of(scratch_context);
	struct unwind *u = &s->unwind;

	if (!hit)
		return STACK_NONE;
	__u64 ip = u->ip, sp = u->sp, bp = u->bp, hash = u->hash;

	unwind_walk(scratch_context);
	if (jvm_was_guessed(s)) {
		unwind_begin(u, ip, sp, bp, (__u64)hit->registers);
		u->ends_at_guess = !jvm_is_noted(u);
		u->hash = hash;
		unwind_walk(scratch_context);
	}
	s->python.count = 0;
	if (s->python.file) {
		s->python.ticks = hit->ticks;
		s->python.tgid = bpf_get_current_pid_tgid() >> 32;
		python_walk(scratch_context);
	}
	/* Two such stacks with the same frames need not have the same callers: each goes out. */
	if (u->ending == STACK_NO_TABLE_YET) {
		struct memory_share *share = memory_share(0, hit->ticks);

		if (share && !(u->sp & 7) && !bpf_probe_read_user(&u->word, 8, (void *)u->sp)) {
			__u32 id = probe_send_stack(scratch_context);

			if (id != STACK_LOST) {
				u->stack = id;
				unwind_send_memory(scratch_context);
				share->room -= u->sent;
			}
			return id;
		}
	}
	return probe_stack_id(scratch_context);
}

/* By frame pointers. */
__noinline int probe_walk_frame_pointers(SCRATCH)
{
	struct scratch *s = scratch_of(scratch_context);

	if (!s)
		return 0;
	struct unwind *u = &s->unwind;
	__u64 ip = u->ip, hash = mix(u->hash, ip);
	struct linked walk = walk_by_frame_pointers(s, ip, u->sp, u->bp, hash, u->is_entry, &u->sent);

	s->python.count = 0;
	u->ending = walk.ending;
	u->hash = mix(walk.hash, walk.ending);
	return 0;
}

/* The stack of the hit that has this slot: its id into `stack`. */
__noinline int probe_stack(__u32 slot)
{
	struct probe_scratch *hit = hit_of(slot);
	struct scratch *s = scratch_of(slot);
	struct task_struct *task = (void *)bpf_get_current_task();

	if (!USER_STACKS || !hit || !s)
		return 0;
	struct unwind *u = &s->unwind;

	unwind_begin(u, hit->registers[REGISTER_IP], hit->registers[REGISTER_SP],
		     hit->registers[REGISTER_BP], (__u64)hit->registers);
	unwind_look_at_space(u, BPF_CORE_READ(task, mm), bpf_get_current_pid_tgid() >> 32,
			     BPF_CORE_READ(task, self_exec_id));
	u->is_entry = !!(hit->cookie & COOKIE_ENTRY);
	if (UNWIND_TABLES) {
		hit->stack = (__u32)probe_unwind(slot);
		return 0;
	}
	probe_walk_frame_pointers(slot);
	hit->stack = (__u32)probe_stack_id(slot);
	return 0;
}

/* Adds the stack's id behind the hit. */
static __always_inline void append_stack(struct probe_scratch *s)
{
	__u64 end = s->end & (PROBE_RECORD_BYTES - 1);

	if (!s->stack)
		return;
	barrier_var(end);
	*(__u64 *)(s->bytes + end) = s->stack;
	s->end = end + 8;
	s->unreadable |= PROBE_HAS_STACK;
}

#endif
