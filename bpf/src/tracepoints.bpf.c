/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Kernel tracepoints that the kernel describes itself, in their format files:
 * the record is copied as it is, and decoded long after.
 *
 * An object of its own. The program is loaded once for each tracepoint, with
 * the tracepoint's number and the size of its record as constants, so that it
 * needs no cookies (5.15). It shares the clock with the other objects. What a
 * GPU does for one process it does beside the others: all of it is recorded,
 * whatever processes are.
 */
#include "tracepoints.h"

/* Records of at most this are kept whole. */
#define TRACEPOINT_BYTES 256

/* The number of the tracepoint's definition. */
const volatile __u32 TRACEPOINT = 0;
/* Bytes of its record that are kept, a multiple of 8. */
const volatile __u32 BYTES = 64;

SEC("tracepoint")
int on_tracepoint(void *context)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct task_lane *lane = bpf_map_lookup_elem(&task_lanes, &cpu);
	struct tracepoint_cpu *here = bpf_map_lookup_elem(&tracepoint_cpus, &cpu);
	void *ring = bpf_map_lookup_elem(&tracepoint_rings, &cpu);

	if (!lane || !here || here->stopped)
		return 0;
	__u64 ticks = clock_ticks(&lane->header);

	if (!ticks || !ring) {
		count_one(here->unclocked);
		return 0;
	}
	__u64 bytes = BYTES;

	if (bytes > TRACEPOINT_BYTES)
		bytes = TRACEPOINT_BYTES;
	/* The size is one that the verifier knows, as the constants are set before it looks. */
	struct TracepointRecord *record = bpf_ringbuf_reserve(ring, sizeof(*record) + bytes, 0);

	if (!record) {
		count_one(here->full);
		return 0;
	}
	__u64 task = bpf_get_current_pid_tgid();

	record->stamp = stamp(ticks, KIND_TRACEPOINT);
	record->tid = task;
	record->tgid = task >> 32;
	record->tracepoint = TRACEPOINT;
	record->bytes = bytes;
	record->interrupt = in_interrupt(cpu);
	record->cpu = cpu;
	record->reserved = 0;
	bpf_probe_read_kernel(record + 1, bytes, context);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	count_one(here->written);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
