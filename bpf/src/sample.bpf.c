/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * CPU samples: what runs when the sampling event of a CPU overflows.
 *
 * Runs in an interrupt, or in an NMI where a PMU drives it, over whatever the
 * other programs do; so it has a lane, a scratch and a cache of its own.
 */
#include "stack.h"

static __always_inline bool sample_stack_writer(struct stack_writer *w, __u64 ticks)
{
	struct sample_stack_lane *lane = this_sample_stack_lane();

	w->scratch = scratch_of(CONTEXT_SAMPLE);
	if (!lane || !w->scratch)
		return false;
	w->lane = &lane->header;
	w->data = lane->data;
	w->lane_bytes = SAMPLE_STACK_LANE_BYTES;
	w->shares = 0;
	w->known = &sample_stacks;
	w->ticks = ticks;
	return true;
}

static __always_inline bool in_user_mode(const struct sample_context *context)
{
	return IN_USER_MODE(context);
}

/*
 * The instruction of its own program that a task is at, which `by_exception` may have entered the
 * kernel.
 *
 * A probe's breakpoint leaves `ip` behind its one byte until the kernel has looked for the probe:
 * of a probed return that is the next function. A copy of the instruction is then stepped over
 * elsewhere, where no unwind table leads from. (kernel/events/uprobes.c, 5.10 to 7.2)
 */
static __always_inline __u64 program_ip(struct task_struct *task, __u64 ip, bool by_exception,
					bool direct)
{
	if (!bpf_core_field_exists(task->utask))
		return ip;
	struct uprobe_task *probed = READ(direct, task, utask);

	if (!probed)
		return ip;
	__u64 copy = READ(direct, probed, xol_vaddr);

	if (copy && ip - copy <= INSTRUCTION_BYTES)
		return READ(direct, probed, vaddr) + (ip - copy);
	/* Before `ip`, there, and behind it. */
	__u8 code[3] = {};

	if (!by_exception || bpf_probe_read_user(code, sizeof(code), (void *)(ip - 1)) ||
	    code[0] != BREAKPOINT)
		return ip;
	/* Compilers fill what lies between functions with breakpoints: of a probed entry, to which
	 * the kernel has led back, one lies before it, and behind a probed return several do. */
	return code[1] == BREAKPOINT && code[2] != BREAKPOINT ? ip : ip - 1;
}

static __always_inline void sample_stacks_of(struct sample_context *context,
					     struct SampleRecord *record, struct task_struct *task, __u64 ticks, bool direct)
{
	struct stack_writer w;

	if (!sample_stack_writer(&w, ticks))
		return;
	if (!in_user_mode(context))
		record->kernel_stack = kernel_stack_helped(context, &w);
	if (!USER_STACKS || READ(direct, task, flags) & PF_KTHREAD)
		return;
	__u32 tgid = READ(direct, task, tgid);
	__u64 exec_id = READ(direct, task, self_exec_id);

	/* One walk for both, so that it is verified once. */
	__u64 ip = context->ip, sp = context->sp, bp = context->bp, registers = 0;
	struct pt_regs *regs = 0;
	bool by_exception = false;

	barrier_var(ip);
	barrier_var(sp);
	barrier_var(bp);
	if (direct) {
		regs = (void *)bpf_task_pt_regs(task);
		/* Else the compiler reads both through one pointer, which the verifier refuses. */
		barrier_var(regs);
	}
	if (!direct && UNWIND_TABLES) {
		struct sample_context *saved = saved_registers(task);
		__u64 saved_ip = BPF_PROBE_READ(saved, ip);

		if (!in_user_mode(context)) {
			registers = (__u64)saved;
			by_exception = (__s64)BPF_PROBE_READ(saved, SYSTEM_CALL) < 0;
			ip = saved_ip;
			sp = BPF_PROBE_READ(saved, sp);
			bp = BPF_PROBE_READ(saved, bp);
		} else if (saved_ip == ip) {
			registers = (__u64)saved;
		}
		ip = program_ip(task, ip, by_exception, direct);
		record->user_stack = user_stack_unwound(&w, ip, sp, bp, registers,
							BPF_CORE_READ(task, mm), CONTEXT_SAMPLE, tgid, exec_id);
		return;
	}
	if (!in_user_mode(context)) {
		if (!direct) {
			record->user_stack = user_stack_helped(context, &w, tgid, exec_id);
			return;
		}
		by_exception = (__s64)regs->SYSTEM_CALL < 0;
		ip = regs->ip;
		sp = regs->sp;
		bp = regs->bp;
		registers = (__u64)regs;
	} else if (direct && regs->ip == ip) {
		/* An interrupt of user code saves its registers where a system call does. */
		registers = (__u64)regs;
	}
	ip = program_ip(task, ip, by_exception, direct);
	if (direct && UNWIND_TABLES)
		record->user_stack = user_stack_unwound(&w, ip, sp, bp, registers, task->mm,
							CONTEXT_SAMPLE, tgid, exec_id);
	else
		record->user_stack = user_stack_walked(&w, ip, sp, bp, tgid, exec_id);
}

static __always_inline void write_sample(struct sample_context *context, struct sample_lane *lane,
					 struct task_struct *task, bool direct)
{
	struct LaneHeader *header = &lane->header;

	if (!lane_has_room(header, SAMPLE_LANE_BYTES, sizeof(struct SampleRecord))) {
		lane_count_full(header, KIND_SAMPLE);
		return;
	}
	__u64 ticks = clock_ticks(header);

	if (!ticks) {
		lane_count_unclocked(header, KIND_SAMPLE);
		return;
	}
	__u64 head = header->head;
	struct SampleRecord *record = lane_at(lane->data, head, SAMPLE_LANE_BYTES);

	record->stamp = stamp(ticks, KIND_SAMPLE);
	record->tid = READ(direct, task, pid);
	record->lost_before = header->lost_pending;
	record->user_stack = STACK_NONE;
	record->kernel_stack = STACK_NONE;
	if (SAMPLE_STACKS && record->tid)
		sample_stacks_of(context, record, task, ticks, direct);
	header->lost_pending = 0;
	header->statistics[STATISTIC_WRITTEN]++;
	lane_publish(header, head + sizeof(struct SampleRecord));
}

static __always_inline int on_sample(struct sample_context *context, struct task_struct *task,
				     bool direct)
{
	if (FILTER && !is_recorded(READ(direct, task, tgid)))
		return 0;
	struct sample_lane *lane = this_sample_lane();

	if (!lane || !lane_enter(&lane->header, KIND_SAMPLE))
		return 0;
	write_sample(context, lane, task, direct);
	lane_leave(&lane->header);
	return 0;
}

#ifndef SCRATCH_BY_NUMBER
SEC("perf_event")
int sample_direct(struct sample_context *context)
{
	return on_sample(context, bpf_get_current_task_btf(), true);
}
#endif

/* Before 5.15: no bpf_task_pt_regs. */
SEC("perf_event")
int sample_probing(struct sample_context *context)
{
	return on_sample(context, (void *)bpf_get_current_task(), false);
}
