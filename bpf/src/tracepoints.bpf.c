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
/* Bytes of its record that are kept at most, a multiple of 8. */
const volatile __u64 BYTES = 64;
/* Where the last of its texts is told (offset, and length in the upper half),
 * and what the offset counts from; 0 where there is none. */
const volatile __u64 TEXT_AT = 0;
const volatile __u64 TEXT_BASE = 0;

/* Bytes of a record up to the end of its last text. */
static __always_inline __u64 bytes_to_keep(const void *record)
{
	if (!TEXT_AT)
		return BYTES;
	__u32 place = *(const __u32 *)(record + TEXT_AT);
	__u64 end = TEXT_BASE + (place & 0xffff) + (place >> 16);

	return end < BYTES ? (end + 7) & ~7ull : BYTES;
}

SEC("tracepoint")
int on_tracepoint(void *context)
{
	struct record_slot slot;

	if (BYTES > TRACEPOINT_BYTES)
		return 0;
	if (!record_reserve(&slot, KIND_TRACEPOINT, sizeof(struct TracepointRecord) + BYTES))
		return 0;
	struct TracepointRecord *record = (void *)slot.head;

	/* One call: the texts are not worth another to leave out what is behind
	 * them, and the context's own loads, word by word, take as long. */
	bpf_probe_read_kernel(record + 1, BYTES, context);
	__u64 bytes = bytes_to_keep(record + 1);

	record->tracepoint = TRACEPOINT;
	record->bytes = bytes;
	record->interrupt = in_interrupt(slot.cpu);
	record->cpu = slot.cpu;
	record->reserved = 0;
	slot.bytes = sizeof(*record) + bytes;
	record_submit(&slot);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
