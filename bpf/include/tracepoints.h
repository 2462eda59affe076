/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What programs at tracepoints of drivers share: the ring buffers and counters
 * of each CPU, and how an interrupt is told from the task that it interrupts.
 */
#ifndef SYSCOLLECT_TRACEPOINTS_H
#define SYSCOLLECT_TRACEPOINTS_H

#include "clock.h"

#include <bpf/bpf_tracing.h>

/* How the count of nested interrupts is reached (preempt_count of include/linux/preempt.h). */
#define COUNT_UNKNOWN 0
/* It is the kernel variable that the loader puts in the place of COUNT_MARK. */
#define COUNT_VARIABLE 1
/* It lies at an address, as far from each CPU's own memory as from the first's. */
#define COUNT_ADDRESS 2
#define COUNT_MARK 0x5ca1ab1e0ddba115
const volatile __u32 COUNT_WAY = COUNT_UNKNOWN;
/* Bytes from the variable's start, or from each CPU's memory. */
const volatile __u64 COUNT_OFFSET = 0;
/* Where the kernel keeps the addresses of each CPU's memory (__per_cpu_offset). */
const volatile __u64 CPU_OFFSETS = 0;
/* NMIs, hardware interrupts, and the software interrupt that is served. */
#define COUNT_INTERRUPTS 0x00ff0100

/* What a CPU counted; the collector reads it, and sets `stopped`. */
struct tracepoint_cpu {
	__u64 written;
	__u64 full;
	/* Nothing of its own nests in a ring buffer; the place is that of struct probe_cpu. */
	__u64 nested;
	__u64 unclocked;
	__u64 reserved[2];
	__u64 stopped;
	__u64 unused;
};
_Static_assert(sizeof(struct tracepoint_cpu) == 64, "size of tracepoint_cpu");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct tracepoint_cpu));
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
} tracepoint_cpus SEC(".maps");

/* A ring buffer for each CPU that is recorded; the collector polls them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1);
} tracepoint_rings SEC(".maps");

#define count_one(counter) __sync_fetch_and_add(&(counter), 1)

/* Whether an interrupt has the CPU, and not the task that is current. The
 * common fields of a record would say so, but perf fills them in later. */
static __always_inline bool in_interrupt(__u32 cpu)
{
	__u64 base = 0;
	__u32 count = 0;

	if (COUNT_WAY == COUNT_VARIABLE) {
		const void *variable;

		asm volatile("%0 = %1 ll" : "=r"(variable) : "i"(COUNT_MARK));
		count = *(const __u32 *)(bpf_this_cpu_ptr(variable) + COUNT_OFFSET);
	} else if (COUNT_WAY == COUNT_ADDRESS) {
		bpf_probe_read_kernel(&base, sizeof(base), (void *)(CPU_OFFSETS + 8ull * cpu));
		bpf_probe_read_kernel(&count, sizeof(count), (void *)(base + COUNT_OFFSET));
	}
	return count & COUNT_INTERRUPTS;
}

/* How every record of a ring buffer begins. */
struct record_head {
	__u64 stamp;
	__u32 tid;
	__u32 tgid;
};

/* A record that is being written. */
struct record_slot {
	struct tracepoint_cpu *here;
	struct record_head *head;
	__u32 cpu;
};

/* Room for a record of this kind and of so many bytes, its head included: a
 * multiple of 8 that the verifier knows. Its head is filled; it lies in
 * slot->head until record_submit, which has to follow. False where the
 * recording has ended, or where the record is lost: that is counted. */
static __always_inline bool record_reserve(struct record_slot *slot, __u32 kind, __u64 bytes)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct task_lane *lane = bpf_map_lookup_elem(&task_lanes, &cpu);
	struct tracepoint_cpu *here = bpf_map_lookup_elem(&tracepoint_cpus, &cpu);
	void *ring = bpf_map_lookup_elem(&tracepoint_rings, &cpu);

	if (!lane || !here || here->stopped)
		return false;
	__u64 ticks = clock_ticks(&lane->header);

	if (!ticks || !ring) {
		count_one(here->unclocked);
		return false;
	}
	struct record_head *head = bpf_ringbuf_reserve(ring, bytes, 0);

	if (!head) {
		count_one(here->full);
		return false;
	}
	__u64 task = bpf_get_current_pid_tgid();

	head->stamp = stamp(ticks, kind);
	head->tid = task;
	head->tgid = task >> 32;
	slot->here = here;
	slot->head = head;
	slot->cpu = cpu;
	return true;
}

/* Hands the record to the collector. */
static __always_inline void record_submit(struct record_slot *slot)
{
	bpf_ringbuf_submit(slot->head, BPF_RB_NO_WAKEUP);
	count_one(slot->here->written);
}

#endif
