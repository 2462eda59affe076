/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads of programs that are asleep now: an iterator over all tasks gives
 * each one's registers, where it entered the kernel, and its kernel stack. The
 * collector reads it once, when a file begins: who is not woken while the
 * recording goes on has no event. (task iterators: 5.8, bpf_get_task_stack in
 * them: 5.9, bpf_task_pt_regs: 5.15.)
 */
#include "kernel.h"
#include "records.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define SLEEPER_FRAMES 64

struct sleeper {
	struct SleepingTask task;
	__u64 frames[SLEEPER_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sleeper));
	__uint(max_entries, 1);
} sleeper_scratch SEC(".maps");

static __always_inline bool runs(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(old->state))
		return BPF_CORE_READ(old, state) == 0;
	return BPF_CORE_READ(task, __state) == 0;
}

SEC("iter/task")
int sleeping_tasks(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	__u32 zero = 0;

	if (!task || runs(task) || (BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
		return 0;
	struct sleeper *sleeper = bpf_map_lookup_elem(&sleeper_scratch, &zero);

	if (!sleeper)
		return 0;
	const struct sample_context *registers = (const void *)bpf_task_pt_regs(task);

	sleeper->task.tid = BPF_CORE_READ(task, pid);
	sleeper->task.tgid = BPF_CORE_READ(task, tgid);
	sleeper->task.io_wait = BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait);
	sleeper->task.switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	bpf_probe_read_kernel(sleeper->task.registers, sizeof(sleeper->task.registers), registers);
	bpf_probe_read_kernel(&sleeper->task.ip, sizeof(sleeper->task.ip), &registers->ip);
	bpf_probe_read_kernel(&sleeper->task.sp, sizeof(sleeper->task.sp), &registers->sp);
	long bytes = bpf_get_task_stack(task, sleeper->frames, sizeof(sleeper->frames), 0);

	if (bytes < 0 || bytes > (long)sizeof(sleeper->frames))
		bytes = 0;
	sleeper->task.kernel_frames = bytes / sizeof(sleeper->frames[0]);
	bpf_seq_write(context->meta->seq, &sleeper->task, sizeof(sleeper->task));
	if (bytes > 0)
		bpf_seq_write(context->meta->seq, sleeper->frames, bytes);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
