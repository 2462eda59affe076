/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From the stack of a thread to that of its goroutine: a part of unwind.h, with whose
 * state it works.
 *
 * Go's runtime does its own work on the stack of its thread, and calls C there. Where
 * a goroutine goes on when that is over it keeps in the goroutine, to which the
 * thread's words lead (collector/unwind/src/go.rs finds where it does so). Source:
 * runtime/asm_amd64.s, and g, m and gobuf of runtime/runtime2.go, as of Go 1.19, whose code says where these lie.
 */
#ifndef SYSCOLLECT_GO_STACK_H
#define SYSCOLLECT_GO_STACK_H

/* Where a thread's number leads, less this, lies the goroutine that runs, or the one whose stack is
 * the thread's. */
#define GO_RUNNING 8
/* Of a goroutine: where its stack ends; its thread; its stack pointer, and where it goes on. */
#define GO_STACK_END 8
#define GO_THREAD 48
#define GO_SP 56
#define GO_IP 64

/* Goes to who called, by the row of a function that went to another stack. */
__noinline int unwind_go_stack(SCRATCH)
{
	TAKE_SCRATCH(UNWIND_NO_CODE);
	struct unwind *u = &s->unwind;
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 row = u->row, rule = row >> 16 & 0xff, sp, ip, bp = u->bp;
	__u64 first = (__u64)(__s64)(__s16)(row >> 32) * 8;
	__u64 second = (__u64)(__s64)(__s16)(row >> 48) * 8;

	if (rule == CFA_GO_C_STACK) {
		__u64 goroutine = bytes_at(u, u->sp + first), depth = bytes_at(u, u->sp + second);

		sp = bytes_at(u, goroutine + GO_STACK_END) - depth;
		ip = bytes_at(u, sp);
		sp += 8;
	} else {
		__u64 number = BPF_CORE_READ(task, THREAD_NUMBER);
		__u64 thread = bytes_at(u, bytes_at(u, number - GO_RUNNING) + GO_THREAD);
		__u64 goroutine = thread ? bytes_at(u, thread + first) : 0;

		if (!goroutine)
			return thread && rule == CFA_GO_MORE_STACK ? UNWIND_WHOLE : STACK_UNREADABLE;
		sp = bytes_at(u, goroutine + GO_SP);
		if (rule == CFA_GO_MORE_STACK) {
			ip = bytes_at(u, goroutine + GO_IP);
			bp = bytes_at(u, goroutine + second);
		} else {
			ip = bytes_at(u, sp);
			sp += 8;
		}
	}
	if (!ip)
		return STACK_UNREADABLE;
	/* The thread may have gone on to another goroutine, which has not begun to run; it is one that
	 * has called this very function only if it waits in the same way. */
	u->address = ip;
	unwind_find_called(GIVE_SCRATCH(s));
	if (!is_in_function(u, u->called))
		return STACK_UNUSABLE_INFORMATION;
	u->ip = ip;
	u->sp = sp;
	u->bp = bp;
	u->reached = FRAME_CALLED;
	return UNWIND_GOES_ON;
}

#endif
