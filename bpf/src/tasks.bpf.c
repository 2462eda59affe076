/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lives of tasks: fork, exec, exit, rename. Rare, so always by raw tracepoint
 * and probing reads; never filtered, so that names are complete.
 */
#include "clock.h"

/* The lane's next record with the fields that all kinds share, or NULL when it
 * is lost. The caller publishes it with task_publish. */
static __always_inline struct TaskRecord *task_record(struct task_lane *lane, struct task_struct *task, __u32 kind)
{
	struct LaneHeader *header = &lane->header;

	if (!lane_has_room(header, TASK_LANE_BYTES, sizeof(struct TaskRecord))) {
		lane_count_full(header, kind);
		return 0;
	}
	__u64 ticks = clock_ticks(header);

	if (!ticks) {
		lane_count_unclocked(header, kind);
		return 0;
	}
	struct TaskRecord *record = lane_at(lane->data, header->head, TASK_LANE_BYTES);

	record->stamp = stamp(ticks, kind);
	record->tid = BPF_CORE_READ(task, pid);
	record->tgid = BPF_CORE_READ(task, tgid);
	record->parent_tid = 0;
	record->parent_tgid = 0;
	record->start_time = BPF_CORE_READ(task, start_time);
	record->exit_code = 0;
	record->lost_before = header->lost_pending;
	__builtin_memset(record->comm, 0, sizeof(record->comm));
	return record;
}

static __always_inline void task_publish(struct task_lane *lane)
{
	lane->header.lost_pending = 0;
	lane->header.statistics[STATISTIC_WRITTEN]++;
	lane_publish(&lane->header, lane->header.head + sizeof(struct TaskRecord));
}

static __always_inline int on_fork(struct task_struct *parent, struct task_struct *child)
{
	struct task_lane *lane = this_task_lane();

	if (!lane || !lane_enter(&lane->header, KIND_FORK))
		return 0;
	struct TaskRecord *record = task_record(lane, child, KIND_FORK);

	if (record) {
		record->parent_tid = BPF_CORE_READ(parent, pid);
		record->parent_tgid = BPF_CORE_READ(parent, tgid);
		BPF_CORE_READ_STR_INTO(&record->comm, child, comm);
		task_publish(lane);
	}
	lane_leave(&lane->header);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int sched_process_fork_raw(__u64 *context)
{
	struct task_struct *parent = (void *)context[0], *child = (void *)context[1];

	if (FILTER && is_recorded(BPF_CORE_READ(parent, tgid))) {
		__u32 tgid = BPF_CORE_READ(child, tgid), yes = 1;

		bpf_map_update_elem(&recorded_processes, &tgid, &yes, 0);
	}
	return on_fork(parent, child);
}

static __always_inline int on_life(struct task_struct *task, __u32 kind, __u32 old_tid)
{
	struct task_lane *lane = this_task_lane();

	if (!lane || !lane_enter(&lane->header, kind))
		return 0;
	struct TaskRecord *record = task_record(lane, task, kind);

	if (record) {
		record->parent_tid = old_tid;
		record->exit_code = kind == KIND_EXIT ? BPF_CORE_READ(task, exit_code) : 0;
		BPF_CORE_READ_STR_INTO(&record->comm, task, comm);
		task_publish(lane);
	}
	lane_leave(&lane->header);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int sched_process_exec_raw(__u64 *context)
{
	return on_life((void *)context[0], KIND_EXEC, context[1]);
}

SEC("raw_tp/sched_process_exit")
int sched_process_exit_raw(__u64 *context)
{
	return on_life((void *)context[0], KIND_EXIT, 0);
}

/* The tracepoint fires before the task has its new name. */
SEC("raw_tp/task_rename")
int task_rename_raw(__u64 *context)
{
	struct task_lane *lane = this_task_lane();

	if (!lane || !lane_enter(&lane->header, KIND_RENAME))
		return 0;
	struct TaskRecord *record = task_record(lane, (void *)context[0], KIND_RENAME);

	if (record) {
		bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), (void *)context[1]);
		task_publish(lane);
	}
	lane_leave(&lane->header);
	return 0;
}
