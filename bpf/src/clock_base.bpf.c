/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where each msr/tsc event began to count: the kernel keeps the counter's last
 * reading (prev_count) beside the count, so their difference is the exact
 * start. An iterator over the collector's open files brings it out, as pairs
 * of file descriptor and base. (task_file iterators: 5.8.)
 */
#include "clock.h"

struct clock_base {
	__u64 fd;
	__u64 base;
};

SEC("iter/task_file")
int clock_base_of_files(struct bpf_iter__task_file *context)
{
	struct task_struct *task = context->task;
	struct file *file = context->file;

	if (!task || !file || task->tgid != COLLECTOR_TGID || task->pid != COLLECTOR_TGID)
		return 0;
	struct perf_event *event = BPF_CORE_READ(file, private_data);
	struct clock_base found = { .fd = context->fd };
	__u64 count = 0;

	/* Files that are no perf events give nonsense here; the collector asks
	 * only for the descriptors that it knows. */
	bpf_probe_read_kernel(&found.base, sizeof(found.base), &event->hw.prev_count);
	bpf_probe_read_kernel(&count, sizeof(count), &event->count);
	found.base -= count;
	bpf_seq_write(context->meta->seq, &found, sizeof(found));
	return 0;
}
