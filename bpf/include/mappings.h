/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a process has mapped at an address, in the kernel's own tree. A part of
 * unwind.h, with whose state it works.
 */
#ifndef SYSCOLLECT_MAPPINGS_H
#define SYSCOLLECT_MAPPINGS_H

/*
 * The kernel's mappings of a process. Since 6.1 they lie in a maple tree
 * (include/linux/maple_tree.h, lib/maple_tree.c): a node is 256 bytes at an
 * address whose low byte says what it is. A node of 64-bit ranges has 15 pivots
 * behind its parent's word and 16 slots behind those; one that knows gaps, too, 9
 * and 10. A pivot is the last address of its slot; unused ones are 0.
 */
#define MAPLE_LEVELS 8
#define MAPLE_TYPE(entry) ((entry) >> 3 & 15)
#define MAPLE_LEAF_64 1
#define MAPLE_ARANGE_64 3
/* No pointer to a mapping: reserved values, and numbers in disguise. */
#define IS_MAPPING(entry) ((entry) > 4096 && !((entry)&1))

/* The slot of a node that holds `address`, by the number of pivots below it. Without comparisons:
 * the verifier follows both ways of each. Pivots that are unused, and slots among them, where there
 * are fewer pivots, have their top bits set here, so that they do not count. */
static __always_inline __u64 maple_slot(const __u64 *node, __u64 type, __u64 address)
{
	__u64 slot = type == MAPLE_ARANGE_64 ? 10 : 16;

#pragma unroll
	for (int i = 1; i <= 15; i++) {
		__u64 last = node[i] - 1, below = last - (address - 1);

		barrier_var(below);
		slot += (below & ~last) >> 63;
	}
	slot &= 31;
	barrier_var(slot);
	return node[slot];
}

/*
 * Before 6.1 they lie in a red-black tree, which is not made for readers without
 * its lock: while it is turned a mapping may not be found, and one that was taken
 * out is other memory at once. The kernel counts what it takes out, before it
 * frees it; and its lock says whether a thread is changing the tree.
 */

/* A tree of a million mappings has at most 40 levels. */
#define RED_BLACK_LEVELS 44

static __always_inline __u64 mapping_in_red_black_tree(const struct unwind *u)
{
	struct mm_struct___before_6_1 *mm = (void *)u->mm;
	struct rb_node *node = BPF_CORE_READ(mm, mm_rb.rb_node);

	for (int level = 0; level < RED_BLACK_LEVELS && node; level++) {
		struct vm_area_struct *mapping =
			(void *)node - bpf_core_field_offset(struct vm_area_struct___before_6_1, vm_rb);

		if (u->address < BPF_CORE_READ(mapping, vm_start))
			node = BPF_CORE_READ(node, rb_left);
		else if (u->address >= BPF_CORE_READ(mapping, vm_end))
			node = BPF_CORE_READ(node, rb_right);
		else
			return (__u64)mapping;
	}
	return 0;
}

/* How many mappings of the process were taken out of its tree; 0 where that is of no matter. */
static __always_inline __u64 mappings_taken_out(const struct unwind *u)
{
	struct mm_struct___before_6_1 *mm = (void *)u->mm;

	return bpf_core_field_exists(mm->vmacache_seqnum) ? BPF_CORE_READ(mm, vmacache_seqnum) : 0;
}

/* Whether a thread is changing the tree. */
static __always_inline bool tree_is_locked(const struct mm_struct *mm)
{
	const struct mm_struct___before_6_1 *older = (const void *)mm;

	return bpf_core_field_exists(older->mm_rb) && bpf_core_field_exists(older->mmap_lock.count) &&
	       BPF_CORE_READ(older, mmap_lock.count.counter) & 1;
}

/* The mapping that holds the address, or 0. */
__noinline __u64 unwind_mapping(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	struct mm_struct *mm = (void *)u->mm;

	if (!bpf_core_field_exists(mm->mm_mt))
		return mapping_in_red_black_tree(u);
	__u64 entry = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);

	/* A root that is no node holds one mapping or none; a program has more. */
	if ((entry & 3) != 2 || entry <= 4096)
		return 0;
	for (int level = 0; level < MAPLE_LEVELS; level++) {
		__u64 type = MAPLE_TYPE(entry);

		if (bpf_probe_read_kernel(u->node, sizeof(u->node), (void *)(entry & ~255ULL)))
			return 0;
		entry = maple_slot(u->node, type, u->address);
		if (!IS_MAPPING(entry))
			return 0;
		if (type <= MAPLE_LEAF_64)
			return entry;
	}
	return 0;
}

/* What is mapped at the address: into code_*, inode and file. Code only; false for
 * everything else. */
__noinline int unwind_look_at_mapping(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	__u64 taken_out = mappings_taken_out(u);
	struct vm_area_struct *mapping = (void *)unwind_mapping(GIVE_SCRATCH(s));
	struct mm_struct *mm = (void *)u->mm;

	if (!mapping)
		return 0;
	__u64 start = BPF_CORE_READ(mapping, vm_start), end = BPF_CORE_READ(mapping, vm_end);

	/* The tree may change meanwhile. */
	if (u->address < start || u->address >= end || !(BPF_CORE_READ(mapping, vm_flags) & VM_EXEC))
		return 0;
	struct file *file = BPF_CORE_READ(mapping, vm_file);

	u->code_start = start;
	u->code_end = end;
	u->code_bias = -start;
	u->inode = 0;
	u->file = 0;
	if (file) {
		u->code_bias += BPF_CORE_READ(mapping, vm_pgoff) << 12;
		u->inode = (__u64)BPF_CORE_READ(file, f_inode);
	} else if (start == (__u64)BPF_CORE_READ(mm, context.vdso)) {
		u->inode = UNWIND_VDSO;
	}
	order_loads();
	return mappings_taken_out(u) == taken_out;
}

/* The kernel's count of changes of a process's mappings (mm_lock_seq: 6.4; a seqcount since 6.13;
 * before 6.1 how often mappings were taken out, and how many there are), of 40 bits. 0 where there
 * is none, or where they are being changed now: then nothing may be kept. */
static __always_inline __u64 mappings_generation(struct mm_struct *mm)
{
	struct mm_struct___6_13 *newer = (void *)mm;

	if (bpf_core_field_exists(newer->mm_lock_seq.sequence)) {
		__u64 sequence = BPF_CORE_READ(newer, mm_lock_seq.sequence);

		return sequence & 1 ? 0 : sequence + 2;
	}
	if (bpf_core_field_exists(mm->mm_lock_seq))
		return (__u32)BPF_CORE_READ(mm, mm_lock_seq) + 2ULL;
	struct mm_struct___before_6_1 *older = (void *)mm;

	if (bpf_core_field_exists(older->vmacache_seqnum) && !tree_is_locked(mm))
		return (BPF_CORE_READ(older, vmacache_seqnum) & 0x7fffffff) << 9 |
		       (BPF_CORE_READ(mm, map_count) & 0xff) << 1 | 1;
	return 0;
}

#endif
