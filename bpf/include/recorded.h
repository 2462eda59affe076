/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which processes are recorded. Both objects use one map.
 */
#ifndef SYSCOLLECT_RECORDED_H
#define SYSCOLLECT_RECORDED_H

#include "config.h"

#include <bpf/bpf_helpers.h>

/* Processes to record when FILTER is on; the collector adds the first ones,
 * on_fork their children. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 65536);
} recorded_processes SEC(".maps");

static __always_inline bool is_recorded(__u32 tgid)
{
	return !FILTER || bpf_map_lookup_elem(&recorded_processes, &tgid);
}

#endif
