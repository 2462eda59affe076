/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef SYSCOLLECT_KERNEL_STACK_H
#define SYSCOLLECT_KERNEL_STACK_H

#include "stack.h"

static __always_inline __u32 kernel_stack_cached(void *context, struct stack_writer *w, struct task_struct *task,
						 __u64 frame, __u32 site)
{
	return kernel_stack_helped(context, w);
}

#endif
