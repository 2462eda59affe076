/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What programs at tracepoints of drivers share: the lane and counters of each
 * CPU.
 */
#ifndef SYSCOLLECT_TRACEPOINTS_H
#define SYSCOLLECT_TRACEPOINTS_H

#include "clock.h"
#include "interrupt.h"

#include <bpf/bpf_tracing.h>

/* What a CPU lost; the collector reads it, and sets `stopped`. */
struct tracepoint_cpu {
	/* The collector counts what it takes out of the lanes. */
	__u64 unused;
	__u64 full;
	__u64 nested;
	__u64 unclocked;
	__u64 reserved[2];
	__u64 stopped;
	__u64 unused_too;
};
_Static_assert(sizeof(struct tracepoint_cpu) == 64, "size of tracepoint_cpu");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct tracepoint_cpu));
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
} tracepoint_cpus SEC(".maps");

/* Bytes of a lane's data, a power of two; the collector makes the lanes. */
const volatile __u64 TRACEPOINT_LANE_BYTES = 64 << 10;

/* A lane of records of sizes of their own: before each of them its bytes. It
 * is mapped by the collector; one program at a time writes to it, as to all
 * lanes (lane.h). Programs at tracepoints never find another at work: the
 * kernel leaves out what would run inside of one. Raw ones may. */
struct tracepoint_lane {
	struct LaneHeader header;
	__u8 padding[LANE_HEADER_SIZE - sizeof(struct LaneHeader)];
	__u8 data[];
};

/* A lane for each CPU that is recorded: an array of one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1);
} tracepoint_lanes SEC(".maps");

#define LOST(cause) (__builtin_offsetof(struct tracepoint_cpu, cause))

/* Counts a lost record, unless the recording has ended. */
static __always_inline bool record_lost(__u32 cpu, __u64 cause)
{
	struct tracepoint_cpu *here = bpf_map_lookup_elem(&tracepoint_cpus, &cpu);

	if (here && !here->stopped)
		__sync_fetch_and_add((__u64 *)((void *)here + cause), 1);
	return false;
}

/* How every record begins. */
struct record_head {
	__u64 stamp;
	__u32 tid;
	__u32 tgid;
};

/* A record that is being written. */
struct record_slot {
	struct LaneHeader *lane;
	struct record_head *head;
	/* Where the record's own bytes begin, by the lane's count. */
	__u64 position;
	/* Bytes of the record: as reserved; may be made less, a multiple of 8, before record_submit. */
	__u64 bytes;
	__u32 cpu;
};

/* Room for a record of this kind and of so many bytes, its head included: a
 * multiple of 8 that the verifier knows, at most LANE_SLACK - 8. Its head is
 * filled; it lies in slot->head until record_submit, which has to follow.
 * False where the recording has ended, or where the record is lost: that is
 * counted. */
static __always_inline bool record_reserve(struct record_slot *slot, __u32 kind, __u64 bytes)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 only = 0;
	struct task_lane *clock = bpf_map_lookup_elem(&task_lanes, &cpu);
	void *lanes = bpf_map_lookup_elem(&tracepoint_lanes, &cpu);

	if (!clock || !lanes)
		return record_lost(cpu, LOST(unclocked));
	struct tracepoint_lane *lane = bpf_map_lookup_elem(lanes, &only);

	if (!lane)
		return record_lost(cpu, LOST(unclocked));
	if (lane->header.busy)
		return record_lost(cpu, LOST(nested));
	lane->header.busy = 1;
	compiler_barrier();
	/* After the lane was taken: what lies in it is in order of time. */
	__u64 ticks = clock_ticks(&clock->header);
	__u64 position = lane->header.head + 8;

	if (!ticks || position - load_before_stores(lane->header.tail) + bytes > TRACEPOINT_LANE_BYTES) {
		lane_leave(&lane->header);
		return record_lost(cpu, ticks ? LOST(full) : LOST(unclocked));
	}
	/* The barrier is for the verifier, as in lane_at. */
	__u64 offset = (position - 8) & (TRACEPOINT_LANE_BYTES - 1);

	barrier_var(offset);
	struct record_head *head = (void *)(lane->data + offset + 8);
	__u64 task = bpf_get_current_pid_tgid();

	head->stamp = stamp(ticks, kind);
	head->tid = task;
	head->tgid = task >> 32;
	slot->lane = &lane->header;
	slot->head = head;
	slot->position = position;
	slot->bytes = bytes;
	slot->cpu = cpu;
	return true;
}

/* Hands the record to the collector. */
static __always_inline void record_submit(struct record_slot *slot)
{
	((__u64 *)slot->head)[-1] = slot->bytes;
	lane_publish(slot->lane, slot->position + slot->bytes);
	lane_leave(slot->lane);
}

#endif
