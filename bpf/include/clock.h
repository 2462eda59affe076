/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Ticks. BPF cannot execute rdtsc, but it can read a per-CPU perf event of the
 * msr PMU that counts TSC. The event counts from its start: clock_base, which
 * the collector keeps in every lane's header, is where that was.
 */
#ifndef SYSCOLLECT_CLOCK_H
#define SYSCOLLECT_CLOCK_H

#include "config.h"
#include "lane.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1);
} tsc_events SEC(".maps");

/* No count reaches these: the helper's negative error numbers. */
#define CLOCK_ERRORS ((__u64)-4096)

/* The ticks now; 0 where the clock cannot be read (a CPU that just came up). */
static __always_inline __u64 clock_ticks(const struct LaneHeader *lane)
{
	if (!USE_TSC)
		return bpf_ktime_get_ns();
	__u64 count = bpf_perf_event_read(&tsc_events, BPF_F_CURRENT_CPU);

	if (count >= CLOCK_ERRORS)
		return 0;
	return lane->clock_base + count;
}

static __always_inline void lane_count_unclocked(struct LaneHeader *lane, __u32 kind)
{
	lane->unclocked[kind & 31]++;
	lane->lost_pending++;
}

static __always_inline __u64 stamp(__u64 ticks, __u32 kind)
{
	return ticks << 8 | kind;
}

#endif
