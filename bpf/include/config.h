/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the collector decides before it loads the programs. Constants to the
 * verifier, which removes the branches that are not taken: a kernel that lacks
 * a helper never sees the call.
 */
#ifndef SYSCOLLECT_CONFIG_H
#define SYSCOLLECT_CONFIG_H

#include "kernel.h"

/* Stamps come from the msr/tsc events; else from CLOCK_MONOTONIC. */
const volatile bool USE_TSC = true;
/* The sched_switch tracepoint hands the previous state over (5.18). */
const volatile bool STATE_IS_ARGUMENT = true;
/* Off-CPU stacks, wakers' stacks, stacks of samples. */
const volatile bool OFFCPU_STACKS = true;
const volatile bool WAKER_STACKS = true;
const volatile bool SAMPLE_STACKS = true;
/* Only events of the processes in `recorded_processes`. */
const volatile bool FILTER = false;
/* Walk every so many cached stacks again and compare; 0 is never. */
const volatile __u32 CROSS_CHECK = 0;
/* Begins every hash of a stack; another one in each recording. */
const volatile __u64 HASH_SECRET = 0;
/* The collector, in the initial pid namespace: clock_base looks at its files. */
const volatile __u32 COLLECTOR_TGID = 0;
/* Kernel stacks from verified slots, see kernel_stack.h; else the helper. */
const volatile bool VERIFIED_SLOTS = true;
/* Stacks have user frames. */
const volatile bool USER_STACKS = true;
/* User stacks by unwind tables, see unwind.h; else by frame pointers. */
const volatile bool UNWIND_TABLES = true;
/* Bytes of a kernel stack (THREAD_SIZE). */
const volatile __u32 KERNEL_STACK_SIZE = THREAD_SIZE;

#endif
