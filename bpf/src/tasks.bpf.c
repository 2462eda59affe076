/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lives of tasks: fork, exec, exit, rename. Rare, so always by raw tracepoint
 * and probing reads; never filtered, so that names are complete.
 */
#include "clock.h"
#include "lane_share.h"

DEFINE_LANE_SHARES(task);

/* The user who runs the current task, which is the one that a record is about or forks it: its
 * number in the first user namespace, and one more, as 0 says nothing. */
static __always_inline __u32 one_more_than_user(void)
{
	return (__u32)bpf_get_current_uid_gid() + 1;
}

/* The lane's next record with the fields that all kinds share, or NULL when it
 * is lost. The caller publishes it with task_publish. */
static __always_inline struct TaskRecord *task_record(struct task_lane *lane,
						      struct task_struct *task, __u32 kind)
{
	struct LaneHeader *header = &lane->header;

	if (!lane_in_share(header, TASK_LANE_BYTES, &task_shares, sizeof(struct TaskRecord))) {
		lane_count_beyond_share(header, kind);
		return 0;
	}
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
	record->parent_tgid = one_more_than_user();
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
		record->exit_code = record->parent_tgid;
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

	if (FILTER) {
		__u32 tgid = BPF_CORE_READ(child, tgid), yes = 1;

		/* The id may have been that of a process that was recorded. */
		if (is_recorded(BPF_CORE_READ(parent, tgid)))
			bpf_map_update_elem(&recorded_processes, &tgid, &yes, 0);
		else
			bpf_map_delete_elem(&recorded_processes, &tgid);
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

/*
 * Of a user's records a process has a share of renames on each CPU, and all
 * together leave a quarter of the lane to births and deaths. What a name is in
 * the end is known without them: it is in the record of the task's end, and the
 * collector reads it.
 */
#define RENAME_SHARE 512
#define RENAME_SHARE_NS 50000000ULL
#define RENAME_SHARES 64

struct rename_share {
	__u64 since;
	__u32 tgid;
	__u32 used;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct rename_share));
	__uint(max_entries, RENAME_SHARES);
} rename_shares SEC(".maps");

/* Whether the process may rename once more now. Processes that share an entry
 * take it from each other: then their user's share is what bounds them. */
static __always_inline bool rename_in_share(__u32 tgid)
{
	__u32 slot = tgid & (RENAME_SHARES - 1);
	struct rename_share *share = bpf_map_lookup_elem(&rename_shares, &slot);

	if (!share)
		return true;
	__u64 now = bpf_ktime_get_ns();

	if (share->tgid != tgid || now - share->since >= RENAME_SHARE_NS) {
		share->tgid = tgid;
		share->since = now;
		share->used = 0;
	}
	share->used++;
	return share->used <= RENAME_SHARE;
}

/* The tracepoint fires before the task has its new name. */
SEC("raw_tp/task_rename")
int task_rename_raw(__u64 *context)
{
	struct task_struct *task = (void *)context[0];
	__u64 old[2] = {}, new[2] = {};

	BPF_CORE_READ_STR_INTO(&old, task, comm);
	bpf_probe_read_kernel_str(new, sizeof(new), (void *)context[1]);
	if (old[0] == new[0] && old[1] == new[1])
		return 0;
	struct task_lane *lane = this_task_lane();

	if (!lane || !lane_enter(&lane->header, KIND_RENAME))
		return 0;
	if (!rename_in_share(BPF_CORE_READ(task, tgid))) {
		lane_count_beyond_share(&lane->header, KIND_RENAME);
	} else if (!lane_has_room(&lane->header, TASK_LANE_BYTES / 4 * 3, sizeof(struct TaskRecord))) {
		lane_count_full(&lane->header, KIND_RENAME);
	} else {
		struct TaskRecord *record = task_record(lane, task, KIND_RENAME);

		if (record) {
			__builtin_memcpy(record->comm, new, sizeof(record->comm));
			task_publish(lane);
		}
	}
	lane_leave(&lane->header);
	return 0;
}
