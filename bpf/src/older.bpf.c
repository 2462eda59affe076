/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel programs for kernels before 5.13, whose global functions are handed
 * numbers only (scratch.h). Those have no bpf_task_pt_regs (5.15) either: there
 * are no programs with direct reads in this object.
 */
#define SCRATCH_BY_NUMBER
#include "syscollect.bpf.c"
