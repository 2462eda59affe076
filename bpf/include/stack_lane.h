/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Room in the lanes of stacks. Those of switches and wakeups come as fast as
 * threads block, so that users have shares of their lane; those of samples do
 * not.
 */
#ifndef SYSCOLLECT_STACK_LANE_H
#define SYSCOLLECT_STACK_LANE_H

#include "lane_share.h"

DEFINE_LANE_SHARES(sched_stack);

/* Whether a stack of `bytes` finds room in a lane of `size` bytes, and in its user's share of it,
 * where there are `shares`. Counts it as lost where it does not. */
static __always_inline bool stack_has_room(struct LaneHeader *lane, __u32 size, void *shares,
					   __u32 bytes)
{
	bool beyond_share = shares && !lane_in_share(lane, size, shares, bytes);

	if (!beyond_share && lane_has_room(lane, size, bytes))
		return true;
	lane->statistics[STATISTIC_STACKS_LOST]++;
	if (beyond_share)
		lane_count_beyond_share(lane, KIND_STACK);
	else
		lane_count_full(lane, KIND_STACK);
	return false;
}

#endif
