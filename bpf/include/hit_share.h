/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Shares of hits. Anybody may run a function that is probed, with the longest
 * arguments, without end. A user's hits and their stacks take as much of a CPU's
 * ring buffer as they leave free for others, and so many bytes in a window on all
 * CPUs together: they go to disk. Root has all of it; who asked for the recording
 * has no window.
 *
 * Hits are preempted by others on their CPU. Between two that belong to one user
 * a few bytes may be counted twice or not at all, never a loss.
 */
#ifndef SYSCOLLECT_HIT_SHARE_H
#define SYSCOLLECT_HIT_SHARE_H

#include "lane_share.h"
#include "probe.h"

/* Bytes of each CPU's ring buffer. */
const volatile __u32 PROBE_RING_BYTES = 256u << 10;
/* Who asked for the recording; root if nobody else did. */
const volatile __u32 ASKED_BY = 0;

/* In nanoseconds. */
#define HIT_WINDOW 100000000ULL
/* Bytes of a user in a window: 64 MiB a second, as of zones. */
#define HIT_BYTES_MAX ((64ULL << 20) / 10)
/* What a CPU takes of them at once. */
#define HIT_CREDIT (64ULL << 10)
/* What the ring buffer adds to a record. */
#define RING_RECORD_HEADER 8

/* A user's share of a CPU's ring buffer. The collector reads it. */
struct hit_share {
	/* `lost` are hits. */
	struct LaneShare share;
	/* Stacks, and what functions in them are called. */
	__u64 stacks_lost;
	/* Bytes of the window that this CPU has taken and not used. */
	__u64 credit;
	__u64 reserved;
};
_Static_assert(sizeof(struct hit_share) == 64, "size of hit_share");

/* Those of a CPU lie together. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct hit_share));
	__uint(max_entries, USER_SHARES);
	__uint(map_flags, BPF_F_MMAPABLE);
} hit_shares SEC(".maps");

/* What all CPUs took of a user's window. */
struct hit_window {
	__u64 since;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct hit_window));
	__uint(max_entries, USER_SHARES);
} hit_windows SEC(".maps");

/* Whether the user may still write so many bytes in this window. CPUs count together without a
 * lock: one or two more may find some. */
static __always_inline bool window_takes(struct hit_share *of, __u32 uid, __u64 bytes)
{
	__u32 slot = user_share(uid);

	if (uid == ASKED_BY)
		return true;
	if (of->credit < bytes) {
		struct hit_window *window = bpf_map_lookup_elem(&hit_windows, &slot);
		__u64 now = bpf_ktime_get_ns();

		if (!window)
			return true;
		if ((__s64)(now - window->since) >= (__s64)HIT_WINDOW) {
			window->since = now;
			window->bytes = 0;
		}
		if (window->bytes >= HIT_BYTES_MAX)
			return false;
		__sync_fetch_and_add(&window->bytes, HIT_CREDIT);
		of->credit = HIT_CREDIT;
	}
	of->credit -= bytes;
	return true;
}

/* Whether a record of so many bytes is in the current task's user's share of the CPU's ring buffer.
 * Charges it, or counts it as lost. */
static __noinline int hit_in_share(void *ring, __u64 bytes, bool is_stack)
{
	__u32 uid = bpf_get_current_uid_gid();
	__u32 slot = bpf_get_smp_processor_id() * USER_SHARES + user_share(uid);
	struct hit_share *of = uid ? bpf_map_lookup_elem(&hit_shares, &slot) : 0;

	if (!of)
		return 1;
	/* In this order: what is read meanwhile makes no room that is not there. */
	__u64 tail = bpf_ringbuf_query(ring, BPF_RB_CONS_POS);
	__u64 head = bpf_ringbuf_query(ring, BPF_RB_PROD_POS);

	bytes += RING_RECORD_HEADER;
	if (share_takes(&of->share, uid, head, tail, PROBE_RING_BYTES, bytes) &&
	    window_takes(of, uid, bytes))
		return 1;
	if (is_stack)
		count_one(of->stacks_lost);
	else
		count_one(of->share.lost);
	return 0;
}

#endif
