/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Kernel stacks without walking them each time.
 *
 * The kernel's own unwinder takes about a microsecond. But a task that blocks
 * mostly blocks as it did before: the same return addresses lie at the same
 * distances from our program's frame. So, for each way into the kernel (the
 * system call, or the thread where there is none), remember where the return
 * addresses of the last walk lay, the slots; next time read those slots again,
 * and if they hold the same addresses, it is the same stack. If anything
 * differs, walk. CROSS_CHECK walks every Nth of the others too and counts
 * differences; none has been seen.
 *
 * The last return address, into the entry code, lies just below the saved user
 * registers, and not at a fixed distance from our frame: the kernel moves the
 * stack by a random offset at each system call.
 */
#ifndef SYSCOLLECT_KERNEL_STACK_H
#define SYSCOLLECT_KERNEL_STACK_H

#include "stack.h"

#define MAX_SLOTS 24
#define WINDOW_WORDS 255
#define KERNEL_PATHS 2048
/* The program's own frames: the function that calls the helper, and the entry. */
#define OWN_FRAMES 2

struct kernel_path {
	__u64 key;
	/* Of the slots' contents. */
	__u64 slots_hash;
	/* Of the frames, as stack_id knows them. */
	__u64 frames_hash;
	__u32 id;
	__u32 hits;
	/* Bytes from our frame to the end of the last slot. */
	__u32 extent;
	__u16 count;
	/* Word offsets from our frame. */
	__u16 slots[MAX_SLOTS];
	__u16 ends_at_registers;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct kernel_path));
	__uint(max_entries, KERNEL_PATHS);
} kernel_paths SEC(".maps");

/* The slots' contents, from the window in the scratch and the word below the registers. */
static __always_inline __u64 hash_slots(const struct kernel_path *path, const struct scratch *s,
					__u64 below_registers)
{
	__u64 hash = below_registers;

#pragma unroll
	for (int i = 0; i < MAX_SLOTS; i++) {
		if (i % 8 == 0 && i >= path->count)
			break;
		__u64 slot = path->slots[i] & 255;

		barrier_var(slot);
		hash = mix(hash, s->window[slot]);
	}
	return hash;
}

/* Reads `bytes` of the kernel stack from our frame on, and the word below the registers. */
static __always_inline bool read_slots(struct scratch *s, __u64 frame, __u64 bytes,
				       __u64 registers, bool user_task, __u64 *below_registers)
{
	*below_registers = 0;
	barrier_var(bytes);
	if (bytes > WINDOW_WORDS * 8)
		return false;
	if (bpf_probe_read_kernel(s->window, bytes, (void *)frame))
		return false;
	return !user_task || !bpf_probe_read_kernel(below_registers, 8, (void *)(registers - 8));
}

/* What the search for slots keeps from word to word. */
struct slot_search {
	struct kernel_path *path;
	struct scratch *scratch;
	/* Words of the window. */
	__u32 words;
	/* Frames found, of those awaited. */
	__u32 found;
	__u32 awaited;
	__u32 count;
};

/* Looks at one word of the stack: the next frame that is awaited, or a copy of
 * one that was found already (then either may be the real one: both are
 * slots). Ends when all frames are found, or with more slots than there is
 * room for. */
static long visit_word(__u32 index, struct slot_search *search)
{
	if (index >= search->words || index >= WINDOW_WORDS)
		return 1;
	__u64 word = search->scratch->window[index];

	if (word < LOWEST_KERNEL_CODE)
		return 0;
	__u32 found = search->found & 31, count = search->count;
	bool matches = false;

	if (search->scratch->frames[found] == word) {
		search->found = found + 1;
		matches = true;
	}
	for (__u32 i = 0; i < MAX_SLOTS && !matches; i++) {
		if (i >= found)
			break;
		matches = search->scratch->frames[i] == word;
	}
	if (!matches)
		return 0;
	search->count = count + 1;
	barrier_var(count);
	if (count >= MAX_SLOTS)
		return 1;
	search->path->slots[count] = index;
	return search->found >= search->awaited;
}

/* Finds where the frames in the scratch lie. False if they cannot all be
 * found. bpf_loop (5.17) keeps the verifier from following every turn. */
static __always_inline bool find_slots(struct kernel_path *path, struct scratch *s, __u64 frame,
				       __u64 registers, __u32 frames, bool user_task)
{
	__u64 bytes = registers - 8 - frame, below = 0;

	if (frames < 2 || frames > MAX_SLOTS)
		return false;
	if (bytes > WINDOW_WORDS * 8)
		bytes = WINDOW_WORDS * 8;
	if (!read_slots(s, frame, bytes, registers, user_task, &below))
		return false;
	/* The last frame of a user task is the one below the registers. */
	struct slot_search search = {
		.path = path, .scratch = s, .words = bytes / 8, .awaited = user_task ? frames - 1 : frames,
	};

	bpf_loop(WINDOW_WORDS, visit_word, &search, 0);
	if (search.found < search.awaited || search.count > MAX_SLOTS || !search.count)
		return false;
	/* The barrier keeps the mask, which older verifiers must see (6.1). */
	__u64 last = frames - 1;

	barrier_var(last);
	if (user_task && below != s->frames[last & 31])
		return false;
	path->count = search.count;
	path->extent = 0;
	for (__u32 i = 0; i < MAX_SLOTS; i++) {
		/* Unused slots repeat the first, so that hash_slots may read them. */
		if (i >= path->count)
			path->slots[i] = path->slots[0];
		__u32 end = (path->slots[i] + 1) * 8;

		if (end > path->extent)
			path->extent = end;
	}
	path->slots_hash = hash_slots(path, s, below);
	return true;
}

/* Every CROSS_CHECK-th hit: is it really what a walk finds? */
static __always_inline void cross_check(void *context, struct stack_writer *w,
					struct kernel_path *path)
{
	if (!CROSS_CHECK || ++path->hits % CROSS_CHECK)
		return;
	__u32 count = walk_with_helper(context, w->scratch, OWN_FRAMES);

	w->lane->statistics[STATISTIC_CROSS_CHECKED]++;
	if (hash_frames(w->scratch, &count, HASH_SECRET) != path->frames_hash)
		w->lane->statistics[STATISTIC_CROSS_DIFFERENT]++;
}

/* A pointer to the saved registers as a plain number: through memory, as the
 * verifier forbids arithmetic with it. */
static __always_inline __u64 registers_of(struct task_struct *task, struct scratch *s)
{
	*(volatile __u64 *)&s->window_start = (__u64)bpf_task_pt_regs(task);
	return *(volatile __u64 *)&s->window_start;
}

/* The id of the current kernel stack. `frame` is the entry program's frame,
 * `site` tells the programs apart, whose frames lie differently. */
static __always_inline __u32 kernel_stack_cached(void *context, struct stack_writer *w,
						 struct task_struct *task, __u64 frame, __u32 site)
{
	struct pt_regs *saved = (void *)bpf_task_pt_regs(task);
	bool user_task = !(task->flags & PF_KTHREAD);
	/* The way into the kernel: the call's number, or the thread. */
	__u64 way = user_task ? (saved->SYSTEM_CALL & 0xffff) : (__u64)task->pid << 16;
	__u64 key = way << 3 | site << 1 | 1, below;
	__u32 index = (key * HASH_MULTIPLIER) >> 53;
	struct kernel_path *path = bpf_map_lookup_elem(&kernel_paths, &index);
	__u64 registers = registers_of(task, w->scratch);

	if (!path)
		return STACK_NONE;
	if (path->key == key &&
	    read_slots(w->scratch, frame, path->extent, registers, user_task, &below) &&
	    hash_slots(path, w->scratch, below) == path->slots_hash) {
		w->lane->statistics[STATISTIC_SLOT_HITS]++;
		cross_check(context, w, path);
		return path->id;
	}
	w->lane->statistics[STATISTIC_SLOT_MISSES]++;
	path->key = 0;
	__u32 count = walk_with_helper(context, w->scratch, OWN_FRAMES);

	if (!count)
		return STACK_NONE;
	__u64 hash = hash_frames(w->scratch, &count, HASH_SECRET);
	__u32 id = stack_id(w, hash, walked_by_helper(count, 0, STACK_KERNEL));

	if (id != STACK_LOST && find_slots(path, w->scratch, frame, registers, count, user_task)) {
		path->frames_hash = hash;
		path->id = id;
		path->key = key;
	}
	return id;
}

#endif
