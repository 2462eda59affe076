/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lanes: one memory-mapped ring per CPU and context, written here, read by the
 * collector without a system call.
 *
 * One writer: the CPU itself, and only one program at a time (`busy`), because
 * an interrupt may come while a program runs in a task: for that a compiler
 * barrier is enough. head and tail count bytes and only grow. A record is
 * complete before head moves past it, and its place was read before tail moved
 * past that: the collector may be on another CPU (arch.h).
 */
#ifndef SYSCOLLECT_LANE_H
#define SYSCOLLECT_LANE_H

#include "kernel.h"
#include "records.h"

#include <bpf/bpf_helpers.h>

#define compiler_barrier() asm volatile("" ::: "memory")

/* `bytes` are those of the data; `more` is added to the size of the map's values
 * where the collector looks for that number to put another in its place. */
#define DEFINE_LANE(name, bytes, more)                                                 \
	struct name {                                                                  \
		struct LaneHeader header;                                              \
		__u8 padding[LANE_HEADER_SIZE - sizeof(struct LaneHeader)];            \
		__u8 data[bytes];                                                      \
		__u8 slack[LANE_SLACK];                                                \
	};                                                                             \
	struct {                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                      \
		__uint(key_size, 4);                                                   \
		__uint(value_size, sizeof(struct name) + more);                        \
		__uint(max_entries, 1);                                                \
		__uint(map_flags, BPF_F_MMAPABLE);                                     \
	} name##s SEC(".maps");                                                        \
	static __always_inline struct name *this_##name(void)                          \
	{                                                                              \
		__u32 cpu = bpf_get_smp_processor_id();                                \
		return bpf_map_lookup_elem(&name##s, &cpu);                            \
	}

/* The collector makes these lanes as large as memory allows: powers of two, of
 * which it sets the maps' values (`ebpf/sizes.rs`), too. */
#define SCHED_LANE_LEAST (64u << 10)
#define SCHED_LANE_MARK 0x1000ABC8
#define SCHED_STACK_LANE_LEAST (512u << 10)
#define SCHED_STACK_LANE_MARK 0x57AC8
const volatile __u32 SCHED_LANE_BYTES = SCHED_LANE_LEAST;
const volatile __u32 SCHED_STACK_LANE_BYTES = SCHED_STACK_LANE_LEAST;
#define SAMPLE_LANE_BYTES (256u << 10)
#define SAMPLE_STACK_LANE_BYTES (512u << 10)
#define TASK_LANE_BYTES (512u << 10)

DEFINE_LANE(sched_lane, SCHED_LANE_LEAST, SCHED_LANE_MARK)
DEFINE_LANE(sched_stack_lane, SCHED_STACK_LANE_LEAST, SCHED_STACK_LANE_MARK)
DEFINE_LANE(sample_lane, SAMPLE_LANE_BYTES, 0)
DEFINE_LANE(sample_stack_lane, SAMPLE_STACK_LANE_BYTES, 0)
DEFINE_LANE(task_lane, TASK_LANE_BYTES, 0)

/* Takes the lane for one event; counts a nested event as lost. */
static __always_inline bool lane_enter(struct LaneHeader *lane, __u32 kind)
{
	if (lane->busy) {
		lane->nested[kind & 31]++;
		lane->lost_pending++;
		return false;
	}
	lane->busy = 1;
	compiler_barrier();
	return true;
}

/* A frame pointer as a plain number. The verifier forbids arithmetic with
 * pointers to the stack; through memory it loses sight of what it was. Only
 * between lane_enter and lane_leave, which own `busy`. */
static __always_inline __u64 lane_number(struct LaneHeader *lane, __u64 frame)
{
	*(volatile __u64 *)&lane->busy = frame;
	return *(volatile __u64 *)&lane->busy;
}

static __always_inline void lane_leave(struct LaneHeader *lane)
{
	compiler_barrier();
	lane->busy = 0;
}

/* Whether `bytes` more fit. A lane of `size` bytes is never filled quite. */
static __always_inline bool lane_has_room(const struct LaneHeader *lane, __u32 size, __u32 bytes)
{
	return lane->head - load_before_stores(lane->tail) + bytes <= size;
}

static __always_inline void lane_count_full(struct LaneHeader *lane, __u32 kind)
{
	lane->lost[kind & 31]++;
	lane->lost_pending++;
}

/* Where the byte at `position` lies. The barrier keeps the compiler from
 * dropping the mask, which the verifier must see. */
static __always_inline void *lane_at(__u8 *data, __u64 position, __u32 size)
{
	__u64 offset = position & (size - 1);

	barrier_var(offset);
	return data + offset;
}

/* Makes everything written before `head` visible to the collector. */
static __always_inline void lane_publish(struct LaneHeader *lane, __u64 head)
{
	order_stores();
	lane->head = head;
}

#endif
