/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Hits of probes in user programs: USDT probes, entry and return of functions.
 *
 * An object of its own, because its programs attach in a way of their own. It
 * shares the clock, and the set of recorded processes, with the other object:
 * the collector hands over the same maps.
 */
#include "announce.h"
#include "hit_share.h"
#ifdef WALK_SLOTS
#include "probe_stack.h"
#endif

/* The cookie: the probe's number, and above it the program's index plus 1, 0
 * where there is nothing to read. Where stacks are walked, two bits on top say
 * of which hits (probe_stack.h). */
#ifdef WALK_SLOTS
#define PROGRAM_IN(cookie) ((cookie) << 2 >> 34)
#else
#define PROGRAM_IN(cookie) ((cookie) >> 32)
#endif

static __always_inline const struct probe_program *program_of(__u64 cookie)
{
	__u32 index = PROGRAM_IN(cookie) - 1;

	return PROGRAM_IN(cookie) ? bpf_map_lookup_elem(&probe_programs, &index) : 0;
}

static __always_inline void write_hit(struct probe_scratch *s, struct probe_cpu *here, void *ring,
				      __u32 probe, const struct probe_program *program)
{
	__u32 count = program ? program->arguments : 0;

	if (count > PROBE_ARGUMENTS)
		count = PROBE_ARGUMENTS;
	s->end = sizeof(struct ProbeRecord) + count * 8;
	if (program) {
		read_words(s, program);
		for (__u32 i = 0; i < PROBE_TEXTS && i < count; i++)
			read_text(s, &program->argument[i], i);
	}
#ifdef WALK_SLOTS
	append_stack(s);
#endif
	__u64 bytes = s->end & (PROBE_RECORD_BYTES - 1);

	s->hit.probe = probe;
	s->hit.size = bytes;
	s->hit.arguments = count;
	s->hit.texts = s->texts;
	s->hit.stack_pointer = s->registers[REGISTER_SP];
	s->hit.unreadable = s->unreadable;
	if (!hit_in_share(ring, bytes, false))
		return;
	/* The verifier of 6.12 does not keep the bound across the call. */
	barrier_var(bytes);
	bytes &= PROBE_RECORD_BYTES - 1;
	if (bpf_ringbuf_output(ring, s->bytes, bytes, BPF_RB_NO_WAKEUP))
		count_one(here->full);
	else
		count_one(here->written);
}

SEC("uprobe")
int on_probe(struct sample_context *context)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct task_lane *lane = bpf_map_lookup_elem(&task_lanes, &cpu);
	struct probe_cpu *here = bpf_map_lookup_elem(&probe_cpus, &cpu);

	if (!lane || !here)
		return 0;
	__u64 ticks = clock_ticks(&lane->header);
	__u64 task = bpf_get_current_pid_tgid();

	__u64 cookie = cookie_of(context);

	/* Number 0 only holds a semaphore up. */
	if (!is_recorded(task >> 32) || here->stopped || !(__u32)cookie)
		return 0;
	void *ring = bpf_map_lookup_elem(&probe_rings, &cpu);

	if (!ticks || !ring) {
		count_one(here->unclocked);
		return 0;
	}
	struct probe_scratch *s = scratch_claim(context);

	if (!s) {
		count_one(here->nested);
		return 0;
	}
#ifdef WALK_SLOTS
	/* Before the hit: it is written where the stack was. */
	s->ticks = ticks;
	s->cookie = cookie;
	s->stack = STACK_NONE;
	if (cookie & COOKIE_STACK)
		probe_stack(s->slot);
	ticks = s->ticks;
#endif
	s->hit.stamp = stamp(ticks, KIND_PROBE);
	s->hit.tid = task;
	s->hit.tgid = task >> 32;
	s->hit.cpu = cpu;
	write_hit(s, here, ring, cookie, program_of(cookie));
	scratch_release(s);
	return 0;
}

/* A thread of an instrumented program says where its ring is: (descriptor, ring, bytes). */
SEC("uprobe")
int on_ring(struct sample_context *context)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct task_lane *lane = bpf_map_lookup_elem(&task_lanes, &cpu);
	struct probe_cpu *here = bpf_map_lookup_elem(&probe_cpus, &cpu);
	const struct probe_program *program = program_of(cookie_of(context));

	if (!lane || !here || !program)
		return 0;
	__u64 task = bpf_get_current_pid_tgid();

	if (!is_recorded(task >> 32) || here->stopped)
		return 0;
	struct probe_scratch *s = scratch_claim(context);

	if (!s) {
		count_one(here->announcements_lost);
		return 0;
	}
	struct RingRecord *record = &s->announcement;

	record->stamp = stamp(clock_ticks(&lane->header), KIND_RING);
	record->tid = task;
	record->tgid = task >> 32;
	record->user = bpf_get_current_uid_gid();
	read_words(s, program);
	record->descriptor = *hit_word(s, 0);
	record->ring = *hit_word(s, 1);
	record->is_young = is_young(s);
	look_at_announced(s);
	if (!may_announce(record))
		goto out;
	if (bpf_ringbuf_output(&announcements, record, sizeof(*record), BPF_RB_FORCE_WAKEUP))
		count_one(here->announcements_lost);
	else
		count_one(here->announced);
out:
	scratch_release(s);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
