/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Shares of lanes. Anybody may begin programs and threads, rename himself, or
 * block below a new stack, a million times a second. A user's records take as
 * much of a lane as they leave free for others, so that one user alone has half
 * of it; root has all of it.
 */
#ifndef SYSCOLLECT_LANE_SHARE_H
#define SYSCOLLECT_LANE_SHARE_H

#include "lane.h"
#include "users.h"

/* The shares of the users in each CPU's lane of that name. */
#define DEFINE_LANE_SHARES(name)                          \
	struct {                                          \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);  \
		__uint(key_size, 4);                      \
		__uint(value_size, sizeof(struct LaneShare)); \
		__uint(max_entries, USER_SHARES);         \
	} name##_shares SEC(".maps")

/* Whether `bytes` more of this user find room in its share of what has `size` bytes, is written up
 * to `head` and was read up to `tail`; charges them. */
static __always_inline bool share_takes(struct LaneShare *share, __u32 uid, __u64 head, __u64 tail,
					__u32 size, __u64 bytes)
{
	/* All that was there at the mark has been read: of what came since, nobody knows. */
	if (tail >= share->mark) {
		share->mark = head;
		share->before = share->used;
		share->used = 0;
	}
	if (share->uid && share->uid != uid)
		share->of_many = 1;
	share->uid = uid;
	if (share->before + share->used + bytes > size - (head - tail))
		return false;
	share->used += bytes;
	return true;
}

/* Whether `bytes` more of the current task's user find room in its share of a lane of `size` bytes;
 * counts them. */
static __always_inline bool lane_in_share(struct LaneHeader *lane, __u32 size, void *shares,
					  __u32 bytes)
{
	__u32 uid = bpf_get_current_uid_gid(), slot = user_share(uid);
	struct LaneShare *share = uid ? bpf_map_lookup_elem(shares, &slot) : 0;

	if (!share)
		return true;
	__u64 tail = load_before_stores(lane->tail);

	if (share_takes(share, uid, lane->head, tail, size, bytes))
		return true;
	share->lost++;
	return false;
}

/* Takes from the current task's user's share what it was charged too much. */
static __always_inline void lane_give_back(void *shares, __u64 bytes)
{
	__u32 uid = bpf_get_current_uid_gid(), slot = user_share(uid);
	struct LaneShare *share = uid ? bpf_map_lookup_elem(shares, &slot) : 0;

	if (share && share->used >= bytes)
		share->used -= bytes;
}

static __always_inline void lane_count_beyond_share(struct LaneHeader *lane, __u32 kind)
{
	lane->beyond_share[kind & 31]++;
	lane->lost_pending++;
}

#endif
