/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where walks have their working memory, and how functions are handed it. A part
 * of unwind.h.
 *
 * Since 5.13 a global function may be handed memory. Before, it takes numbers
 * only: in the object for those kernels (older.bpf.c) it is handed the context,
 * and looks for the memory of this CPU itself.
 */
#ifndef SYSCOLLECT_SCRATCH_H
#define SYSCOLLECT_SCRATCH_H

#ifdef WALK_SLOTS
/* Hits of probes are preempted by others' on their CPU: each of those that are at work at once has
 * a number, which is its context (probe_stack.h). */
enum { CONTEXTS = WALK_SLOTS };
#else
/* Who walks: switches and wakeups, samples, and whoever asks what is mapped where. */
enum { CONTEXT_SCHED, CONTEXT_SAMPLE, CONTEXT_IDENTIFY, CONTEXTS };
#endif

#ifdef SCRATCH_BY_NUMBER

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct scratch));
	__uint(max_entries, CONTEXTS);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch_of(__u32 context)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &context);

	if (s)
		s->unwind.context = context;
	return s;
}

#define SCRATCH __u32 scratch_context
#define TAKE_SCRATCH(otherwise)                               \
	struct scratch *s = scratch_of(scratch_context);      \
	if (!UNWIND_TABLES || !s)                             \
	return otherwise
#define GIVE_SCRATCH(s) ((s)->unwind.context)

#else

struct scratch_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct scratch));
	__uint(max_entries, 1);
};
struct scratch_map sched_scratch SEC(".maps");
struct scratch_map sample_scratch SEC(".maps");
struct scratch_map identify_scratch SEC(".maps");

static __always_inline struct scratch *scratch_of(__u32 context)
{
	__u32 zero = 0;

	switch (context) {
	case CONTEXT_SCHED:
		return bpf_map_lookup_elem(&sched_scratch, &zero);
	case CONTEXT_SAMPLE:
		return bpf_map_lookup_elem(&sample_scratch, &zero);
	default:
		return bpf_map_lookup_elem(&identify_scratch, &zero);
	}
}

#define SCRATCH struct scratch *s
#define TAKE_SCRATCH(otherwise)   \
	if (!UNWIND_TABLES || !s) \
	return otherwise
#define GIVE_SCRATCH(s) (s)

#endif

#endif
