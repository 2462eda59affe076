/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Scheduling: switches, wakeups, migrations, CPU frequency.
 *
 * The same handlers serve BTF tracepoints, which may read fields directly, and
 * raw tracepoints, which must use the probing reads (`direct` is a constant).
 */
#include "interrupt.h"
#include "kernel_stack.h"
#include "recorded.h"

#define READ(direct, task, field) ((direct) ? (task)->field : BPF_CORE_READ(task, field))

/* TASK_* and EXIT_* of include/linux/sched.h to the states of records.h. */
#define KERNEL_TASK_DEAD 0x80
#define KERNEL_TASK_NOLOAD 0x400
#define KERNEL_TASK_OTHER_WAITS 0x9000 /* RTLOCK_WAIT, FROZEN */

static __always_inline __u8 record_state(__u64 state)
{
	if ((state & (2 | KERNEL_TASK_NOLOAD)) == (2 | KERNEL_TASK_NOLOAD))
		return STATE_IDLE;
	if (state & KERNEL_TASK_DEAD)
		return STATE_DEAD;
	if (state & KERNEL_TASK_OTHER_WAITS && !(state & 0x7f))
		return STATE_UNINTERRUPTIBLE;
	state &= 0x7f;
	return state & -state;
}

static __always_inline __u64 kernel_state(struct task_struct *task, bool direct)
{
	if (bpf_core_field_exists(task->__state))
		return READ(direct, task, __state);
	struct task_struct___before_5_14 *old = (void *)task;

	return direct ? old->state : BPF_CORE_READ(old, state);
}

/* io_schedule sets the bit around its sleep, which is uninterruptible. */
static __always_inline bool waits_for_io(struct task_struct *task, bool direct)
{
	return direct ? BPF_CORE_READ_BITFIELD(task, in_iowait)
		      : BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait);
}

/* Starts the writer of this CPU's sched stacks; false only where a map is missing. */
static __always_inline bool sched_stack_writer(struct stack_writer *w, __u64 ticks)
{
	struct sched_stack_lane *lane = this_sched_stack_lane();

	w->scratch = scratch_of(CONTEXT_SCHED);
	if (!lane || !w->scratch)
		return false;
	w->lane = &lane->header;
	w->data = lane->data;
	w->lane_bytes = SCHED_STACK_LANE_BYTES;
	w->shares = &sched_stack_shares;
	w->known = &sched_stacks;
	w->ticks = ticks;
	return true;
}

#define HAVE_STACKS (OFFCPU_STACKS || WAKER_STACKS)
#define SCHED_STRIDE (HAVE_STACKS ? sizeof(struct SchedStackRecord) : sizeof(struct SchedRecord))

static __always_inline void put_event(struct sched_lane *lane, __u64 head, __u64 stamp,
				      __u64 fields, __u64 stacks)
{
	__u64 *words = lane_at(lane->data, head, SCHED_LANE_BYTES);

	words[0] = stamp;
	words[1] = fields;
	if (HAVE_STACKS)
		words[2] = stacks;
}

/* The second word of a SchedRecord. */
static __always_inline __u64 event_fields(__u32 tid, __u8 state, __u8 prio, __u8 next_prio,
					  __u8 flags)
{
	return tid | (__u64)state << 32 | (__u64)prio << 40 | (__u64)next_prio << 48 | (__u64)flags << 56;
}

/* Where the next event goes, after a record that restates the current task if
 * the reader would take it for another one: at the start, after a loss, after
 * events that were filtered out. The caller has made sure of room for both. */
static __always_inline __u64 resumed_head(struct sched_lane *lane, __u32 current, __u64 ticks)
{
	struct LaneHeader *header = &lane->header;
	__u64 head = header->head;

	if (header->current == current && !header->lost_pending)
		return head;
	__u64 lost = header->lost_pending;

	if (lost > 0xffffff)
		lost = 0xffffff;
	put_event(lane, head, stamp(ticks, KIND_RESUME),
		  event_fields(current, lost, lost >> 8, lost >> 16, 0), 0);
	header->current = current;
	header->lost_pending = 0;
	/* A record like others: dropping its chunk counts it, too. */
	header->statistics[STATISTIC_WRITTEN]++;
	return head + SCHED_STRIDE;
}

/* Room for an event and a resume record, and a clock: the ticks, or 0 if the event is lost. */
static __always_inline __u64 begin_event(struct sched_lane *lane, __u32 kind)
{
	if (!lane_has_room(&lane->header, SCHED_LANE_BYTES, 2 * SCHED_STRIDE)) {
		lane_count_full(&lane->header, kind);
		return 0;
	}
	__u64 ticks = clock_ticks(&lane->header);

	if (!ticks)
		lane_count_unclocked(&lane->header, kind);
	return ticks;
}

static __always_inline void end_event(struct sched_lane *lane, __u64 head)
{
	lane->header.statistics[STATISTIC_WRITTEN]++;
	lane_publish(&lane->header, head + SCHED_STRIDE);
}

/* The stacks of a task of this CPU: user id in the low half, kernel id in the high. */
static __always_inline __u64 stacks_of(void *context, struct LaneHeader *lane,
				       struct task_struct *task, __u64 ticks, __u64 frame, bool direct, __u32 site)
{
	struct stack_writer w;

	if (!sched_stack_writer(&w, ticks))
		return 0;
	__u32 user = STACK_NONE, kernel;
	__u64 frame_number = lane_number(lane, frame);

	if (USER_STACKS && !(READ(direct, task, flags) & PF_KTHREAD)) {
		__u32 tgid = READ(direct, task, tgid);
		__u64 exec_id = READ(direct, task, self_exec_id);

		if (direct) {
			struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

			if (UNWIND_TABLES)
				user = user_stack_unwound(&w, regs->ip, regs->sp, regs->bp, (__u64)regs, task->mm,
							  CONTEXT_SCHED, tgid, exec_id);
			else
				user = user_stack_walked(&w, regs->ip, regs->sp, regs->bp, tgid, exec_id);
		} else if (UNWIND_TABLES) {
			struct sample_context *regs = saved_registers(task);

			user = user_stack_unwound(&w, BPF_PROBE_READ(regs, ip), BPF_PROBE_READ(regs, sp),
						  BPF_PROBE_READ(regs, bp), (__u64)regs, BPF_CORE_READ(task, mm),
						  CONTEXT_SCHED, tgid, exec_id);
		} else {
			user = user_stack_helped(context, &w, tgid, exec_id);
		}
	}
	/* From the interrupts' stack, where a wakeup may have been, there is no fixed distance. */
	bool is_own = site == 1 || frame_number - (__u64)READ(direct, task, stack) < KERNEL_STACK_SIZE;

	if (direct && VERIFIED_SLOTS && is_own)
		kernel = kernel_stack_cached(context, &w, task, frame_number, site);
	else
		kernel = kernel_stack_helped(context, &w);
	return user | (__u64)kernel << 32;
}

static __always_inline int on_switch(void *context, bool preempted, struct task_struct *previous,
				     struct task_struct *next, __u64 state, __u64 frame, bool direct)
{
	if (FILTER && !is_recorded(READ(direct, previous, tgid)) && !is_recorded(READ(direct, next, tgid)))
		return 0;
	struct sched_lane *lane = this_sched_lane();

	if (!lane || !lane_enter(&lane->header, KIND_SWITCH))
		return 0;
	__u64 ticks = begin_event(lane, KIND_SWITCH);

	if (ticks) {
		__u32 previous_tid = READ(direct, previous, pid), next_tid = READ(direct, next, pid);
		__u64 head = resumed_head(lane, previous_tid, ticks), stacks = 0;
		__u8 left = preempted ? 0 : record_state(state);
		__u8 flags = preempted ? SCHED_PREEMPTED : 0;

		if (left == STATE_UNINTERRUPTIBLE && waits_for_io(previous, direct))
			flags |= SCHED_IO_WAIT;
		/* With a filter, a switch to a recorded process shows who left, but
		 * not where: stacks are of the recorded processes only. */
		/* Who has ended waits for nothing, and what its stack was is gone. */
		if (OFFCPU_STACKS && left && left != STATE_DEAD && previous_tid &&
		    is_recorded(READ(direct, previous, tgid)))
			stacks = stacks_of(context, &lane->header, previous, ticks, frame, direct, 1);
		put_event(lane, head, stamp(ticks, KIND_SWITCH),
			  event_fields(next_tid, left, READ(direct, previous, prio), READ(direct, next, prio), flags),
			  stacks);
		lane->header.current = next_tid;
		end_event(lane, head);
	}
	lane_leave(&lane->header);
	return 0;
}

/* Where the stack of a task, which begins there, was left for the one that interrupts have, on
 * which `frame` is; 0 where that is not known. Since 5.12 the last word of that stack says it,
 * above the address to which the first function there returns
 * (arch/x86/include/asm/irq_stack.h). It ends with a page, of which there are four
 * (IRQ_STACK_ORDER). */
static __always_inline __u64 left_own_stack(__u64 frame, __u64 stack)
{
	__u64 left = 0, words[2], end = (frame | 4095) + 1;

	for (int i = 0; i < 4; i++) {
		if (bpf_probe_read_kernel(words, sizeof(words), (void *)(end + 4096 * i - sizeof(words))))
			break;
		if (words[0] >= LOWEST_KERNEL_CODE && words[1] - stack < THREAD_SIZE)
			left = words[1];
	}
	return left;
}

/*
 * Whether the current task, whose kernel stack begins there, serves a software
 * interrupt that it raised itself, as who sends to another program of this
 * machine by TCP does in its own system call. That has the interrupts' stack, as
 * the interrupts have that come while the kernel is at work. But where such a
 * one left the task's stack there lie, a few words on, the registers that it saved.
 */
static __noinline int serves_own_softirq(__u64 frame, __u64 stack)
{
	/* Not on the stack: before 6.13 that of all functions is 512 bytes. */
	struct scratch *s = scratch_of(CONTEXT_SCHED);
	__u64 left;

	if (COUNT_WAY != COUNT_UNKNOWN &&
	    (nested_count(bpf_get_smp_processor_id()) & COUNT_HARDWARE_INTERRUPTS))
		return 0;
	left = left_own_stack(frame, stack);
	if (!s || !left || left - stack > THREAD_SIZE - INTERRUPTED_WORDS * 8 ||
	    bpf_probe_read_kernel(s->window, INTERRUPTED_WORDS * 8, (void *)left))
		return 0;
	/* The compiler would keep all of what is compared on the stack. */
	const volatile __u64 *words = s->window;

#pragma clang loop unroll(disable)
	for (int i = 0; i < INTERRUPTED_WORDS - REGISTERS; i++) {
		if (ARE_REGISTERS_IN_KERNEL(words, i, left))
			return 0;
	}
	return 1;
}

/* Whether the current task does the waking, and not an interrupt in its place.
 * An interrupt that came while the kernel was at work has a stack of its own.
 * One that came while a program was at work has the task's stack; but then the
 * task did not enter by a system call (SYSTEM_CALL), so that few have to look at
 * the count.
 * Where the count is unknown, a page fault that wakes is taken for one, too:
 * rather no waker than a wrong one. */
static __always_inline bool is_woken_by_task(struct LaneHeader *lane, struct task_struct *current,
					     __u64 frame, bool direct)
{
	__u64 stack = (__u64)READ(direct, current, stack);
	__s64 system_call = -1;

	frame = lane_number(lane, frame);
	bool is_own_stack = frame - stack < KERNEL_STACK_SIZE;

	/* The idle task sends nothing. */
	if (!is_own_stack && !(direct && current->pid))
		return false;
	if (READ(direct, current, flags) & PF_KTHREAD)
		return is_own_stack || serves_own_softirq(frame, stack);
	if (direct) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(current);

		system_call = regs->SYSTEM_CALL;
		if (!is_own_stack)
			return system_call >= 0 && serves_own_softirq(frame, stack);
	} else {
		system_call = BPF_PROBE_READ(saved_registers(current), SYSTEM_CALL);
	}
	return system_call >= 0 ||
	       (COUNT_WAY != COUNT_UNKNOWN && !in_interrupt(bpf_get_smp_processor_id()));
}

static __always_inline int on_wakeup(void *context, struct task_struct *current,
				     struct task_struct *woken, __u32 kind, __u64 frame, bool direct)
{
	if (FILTER && !is_recorded(READ(direct, current, tgid)) && !is_recorded(READ(direct, woken, tgid)))
		return 0;
	struct sched_lane *lane = this_sched_lane();

	if (!lane || !lane_enter(&lane->header, kind))
		return 0;
	__u64 ticks = begin_event(lane, kind);

	if (ticks) {
		__u32 cpu = READ(direct, woken, wake_cpu);
		__u32 current_tid = READ(direct, current, pid);
		__u64 head = resumed_head(lane, current_tid, ticks), stacks = 0;
		bool in_task = is_woken_by_task(&lane->header, current, frame, direct);

		if (WAKER_STACKS && in_task && current_tid)
			stacks = stacks_of(context, &lane->header, current, ticks, frame, direct, 2);
		put_event(lane, head, stamp(ticks, kind),
			  event_fields(READ(direct, woken, pid), cpu, READ(direct, woken, prio), cpu >> 8,
				       in_task ? 0 : SCHED_FROM_INTERRUPT),
			  stacks);
		end_event(lane, head);
	}
	lane_leave(&lane->header);
	return 0;
}

static __always_inline int on_migrate(struct task_struct *current, struct task_struct *task,
				      __u32 to, bool direct)
{
	if (FILTER && !is_recorded(READ(direct, task, tgid)))
		return 0;
	struct sched_lane *lane = this_sched_lane();

	if (!lane || !lane_enter(&lane->header, KIND_MIGRATE))
		return 0;
	__u64 ticks = begin_event(lane, KIND_MIGRATE);

	if (ticks) {
		__u32 from = READ(direct, task, wake_cpu);
		__u64 head = resumed_head(lane, READ(direct, current, pid), ticks);

		put_event(lane, head, stamp(ticks, KIND_MIGRATE),
			  event_fields(READ(direct, task, pid), from, to, to >> 8, from >> 8), 0);
		end_event(lane, head);
	}
	lane_leave(&lane->header);
	return 0;
}

static __always_inline int on_frequency(__u32 khz, __u32 cpu)
{
	struct sched_lane *lane = this_sched_lane();

	if (!lane || !lane_enter(&lane->header, KIND_FREQUENCY))
		return 0;
	__u64 ticks = begin_event(lane, KIND_FREQUENCY);

	if (ticks) {
		__u64 head = resumed_head(lane, (__u32)bpf_get_current_pid_tgid(), ticks);

		put_event(lane, head, stamp(ticks, KIND_FREQUENCY), event_fields(khz, cpu, cpu >> 8, 0, 0), 0);
		end_event(lane, head);
	}
	lane_leave(&lane->header);
	return 0;
}

/*
 * From 6.13 on a program may have a stack of its own, off the kernel's, so the
 * frame that tells where the kernel stack is must be taken in the entry
 * program and handed to a function that is not inlined.
 */
#define FRAME_POINTER                          \
	({                                     \
		__u64 frame;                   \
		asm volatile("%0 = r10" : "=r"(frame)); \
		frame;                         \
	})

#ifndef SCRATCH_BY_NUMBER
static __noinline int switch_direct(__u64 *context, struct task_struct *previous,
				    struct task_struct *next, __u64 frame)
{
	__u64 state = STATE_IS_ARGUMENT ? (__u32)context[3] : kernel_state(previous, true);

	return on_switch(context, context[0], previous, next, state, frame, true);
}

SEC("tp_btf/sched_switch")
int sched_switch_btf(__u64 *context)
{
	return switch_direct(context, (void *)context[1], (void *)context[2], FRAME_POINTER);
}
#endif

SEC("raw_tp/sched_switch")
int sched_switch_raw(__u64 *context)
{
	struct task_struct *previous = (void *)context[1], *next = (void *)context[2];

	return on_switch(context, context[0], previous, next, kernel_state(previous, false),
			 FRAME_POINTER, false);
}

#ifndef SCRATCH_BY_NUMBER
static __noinline int wakeup_direct(__u64 *context, struct task_struct *woken, __u32 kind,
				    __u64 frame)
{
	return on_wakeup(context, bpf_get_current_task_btf(), woken, kind, frame, true);
}

SEC("tp_btf/sched_waking")
int sched_waking_btf(__u64 *context)
{
	return wakeup_direct(context, (void *)context[0], KIND_WAKING, FRAME_POINTER);
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new_btf(__u64 *context)
{
	return wakeup_direct(context, (void *)context[0], KIND_WAKEUP_NEW, FRAME_POINTER);
}
#endif

static __noinline int wakeup_probing(__u64 *context, struct task_struct *woken, __u32 kind,
				     __u64 frame)
{
	return on_wakeup(context, (void *)bpf_get_current_task(), woken, kind, frame, false);
}

SEC("raw_tp/sched_waking")
int sched_waking_raw(__u64 *context)
{
	return wakeup_probing(context, (void *)context[0], KIND_WAKING, FRAME_POINTER);
}

SEC("raw_tp/sched_wakeup_new")
int sched_wakeup_new_raw(__u64 *context)
{
	return wakeup_probing(context, (void *)context[0], KIND_WAKEUP_NEW, FRAME_POINTER);
}

SEC("raw_tp/sched_migrate_task")
int sched_migrate_task_raw(__u64 *context)
{
	struct task_struct *current = (void *)bpf_get_current_task();

	return on_migrate(current, (void *)context[0], context[1], false);
}

SEC("raw_tp/cpu_frequency")
int cpu_frequency_raw(__u64 *context)
{
	return on_frequency(context[0], context[1]);
}
