/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The same programs for hits with stacks (probe_stack.h). An object of its own:
 * who asks for no stacks has neither the code nor the memory of walks.
 *
 * Functions are handed numbers, as kernels before 5.13 want it: one object is
 * enough for all kernels.
 */
#define WALK_SLOTS 4
#define SCRATCH_BY_NUMBER
#include "probes.bpf.c"
