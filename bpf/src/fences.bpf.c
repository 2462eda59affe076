/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Work of GPUs that failed. Tracepoints do not tell of errors; the fences do,
 * to which their arguments lead.
 *
 * Raw tracepoints, because only they hand the arguments over. The types are
 * the kernel's own, or a module's, which is loaded when it is: where their
 * members lie is found out by the collector and set as constants. Attached
 * before the programs that copy the tracepoints' records, so that a failure
 * lies before the end that it tells of.
 */
#include "tracepoints.h"

/* Bytes from the start of a struct dma_fence. */
const volatile __u32 FENCE_ERROR = 0;
const volatile __u32 FENCE_CONTEXT = 0;
const volatile __u32 FENCE_SEQUENCE = 0;
/* Bytes from the start of a struct drm_sched_fence. */
const volatile __u32 JOB_FINISHED = 0;
const volatile __u32 JOB_PARENT = 0;

static __always_inline __s32 error_of(const void *fence)
{
	__s32 error = 0;

	bpf_probe_read_kernel(&error, sizeof(error), fence + FENCE_ERROR);
	return error;
}

static __always_inline int failed(const void *fence, __s32 error, __u16 told_by)
{
	struct record_slot slot;

	if (!record_reserve(&slot, KIND_GPU_FAILURE, sizeof(struct GpuFailureRecord)))
		return 0;
	struct GpuFailureRecord *record = (void *)slot.head;

	record->error = error;
	record->bytes = sizeof(*record) - sizeof(struct TracepointRecord);
	record->told_by = told_by;
	record->cpu = slot.cpu;
	record->reserved = 0;
	record->fence = (__u64)fence;
	bpf_probe_read_kernel(&record->context, sizeof(record->context), fence + FENCE_CONTEXT);
	bpf_probe_read_kernel(&record->sequence, sizeof(record->sequence), fence + FENCE_SEQUENCE);
	record_submit(&slot);
	return 0;
}

/* dma_fence_signaled(struct dma_fence *): nearly all have no error. */
SEC("raw_tracepoint")
int on_fence(__u64 *arguments)
{
	const void *fence = (const void *)arguments[0];
	__s32 error = error_of(fence);

	if (!error)
		return 0;
	return failed(fence, error, GPU_FAILURE_FENCE);
}

/* drm_sched_process_job, later drm_sched_job_done (struct drm_sched_fence *).
 * The scheduler hands the error of the driver's fence on to its own after it
 * has told that the job is done; some drivers set that one themselves. */
SEC("raw_tracepoint")
int on_job(__u64 *arguments)
{
	const void *job = (const void *)arguments[0];
	const void *finished = job + JOB_FINISHED;
	const void *parent = 0;
	__s32 error = error_of(finished);

	if (!error) {
		bpf_probe_read_kernel(&parent, sizeof(parent), job + JOB_PARENT);
		if (parent) {
			error = error_of(parent);
			if (!error)
				return 0;
		}
		/* A driver that gave no fence may have refused the job: that is
		 * told when the scheduler's own is signaled, right after this. */
	}
	return failed(finished, error, GPU_FAILURE_SCHEDULER);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
