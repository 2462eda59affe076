/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * All kernel programs in one object: they share lanes, and the collector loads
 * the variants that the running kernel takes.
 */
#include "sched.bpf.c"
#include "sample.bpf.c"
#include "tasks.bpf.c"
#include "clock_base.bpf.c"
#include "unwind.bpf.c"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
