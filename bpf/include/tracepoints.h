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

#endif
