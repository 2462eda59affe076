/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How an interrupt is told from the task that it interrupts: by the kernel's
 * count of what is nested on this CPU.
 */
#ifndef SYSCOLLECT_INTERRUPT_H
#define SYSCOLLECT_INTERRUPT_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

/* How the count of nested interrupts is reached (preempt_count of include/linux/preempt.h). */
#define COUNT_UNKNOWN 0
/* It is the kernel variable that the loader puts in the place of COUNT_MARK. */
#define COUNT_VARIABLE 1
/* It lies at an address, as far from each CPU's own memory as from the first's. */
#define COUNT_ADDRESS 2
#define COUNT_MARK 0x5ca1ab1e0ddba115
const volatile __u32 COUNT_WAY = COUNT_UNKNOWN;
/* Bytes from the variable's start, or from each CPU's memory. */
const volatile __u64 COUNT_OFFSET = 0;
/* Where the kernel keeps the addresses of each CPU's memory (__per_cpu_offset). */
const volatile __u64 CPU_OFFSETS = 0;
/* NMIs, hardware interrupts, and the software interrupt that is served. */
#define COUNT_INTERRUPTS 0x00ff0100
#define COUNT_HARDWARE_INTERRUPTS 0x00ff0000

/* What is nested on this CPU; 0 where that cannot be known. */
static __always_inline __u32 nested_count(__u32 cpu)
{
	__u64 base = 0;
	__u32 count = 0;

	if (COUNT_WAY == COUNT_VARIABLE) {
		const void *variable;

		asm volatile("%0 = %1 ll" : "=r"(variable) : "i"(COUNT_MARK));
		count = *(const __u32 *)(bpf_this_cpu_ptr(variable) + COUNT_OFFSET);
	} else if (COUNT_WAY == COUNT_ADDRESS) {
		bpf_probe_read_kernel(&base, sizeof(base), (void *)(CPU_OFFSETS + 8ull * cpu));
		bpf_probe_read_kernel(&count, sizeof(count), (void *)(base + COUNT_OFFSET));
	}
	return count;
}

/* Whether an interrupt has the CPU, and not the task that is current. The
 * common fields of a record would say so, but perf fills them in later. */
static __always_inline bool in_interrupt(__u32 cpu)
{
	return nested_count(cpu) & COUNT_INTERRUPTS;
}

#endif
