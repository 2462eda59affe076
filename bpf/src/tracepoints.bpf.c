/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Kernel tracepoints that the kernel describes itself, in their format files:
 * the record is copied as it is, and decoded long after.
 *
 * An object of its own. The program is loaded once for each tracepoint, with
 * the tracepoint's number and the size of its record as constants, so that it
 * needs no cookies (5.15). It shares the clock with the other objects. What a
 * GPU does for one process it does beside the others: all of it is recorded,
 * whatever processes are.
 */
#include "tracepoints.h"

/* Records of at most this are kept whole. */
#define TRACEPOINT_BYTES 256

/* The number of the tracepoint's definition. */
const volatile __u32 TRACEPOINT = 0;
/* Bytes of its record that are kept, a multiple of 8. */
const volatile __u32 BYTES = 64;

SEC("tracepoint")
int on_tracepoint(void *context)
{
	struct record_slot slot;
	__u64 bytes = BYTES;

	if (bytes > TRACEPOINT_BYTES)
		bytes = TRACEPOINT_BYTES;
	/* The size is one that the verifier knows, as the constants are set before it looks. */
	if (!record_reserve(&slot, KIND_TRACEPOINT, sizeof(struct TracepointRecord) + bytes))
		return 0;
	struct TracepointRecord *record = (void *)slot.head;

	record->tracepoint = TRACEPOINT;
	record->bytes = bytes;
	record->interrupt = in_interrupt(slot.cpu);
	record->cpu = slot.cpu;
	record->reserved = 0;
	bpf_probe_read_kernel(record + 1, bytes, context);
	record_submit(&slot);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
