/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How the collector learns by which inode the programs know a file: it maps the
 * file and asks what lies there. What it reads of a file otherwise (stat) need
 * not be what the kernel has of it: file systems that lie over others show
 * numbers of their own. It asks, too, whether others have the file mapped.
 */
#include "stack.h"

/* Never attached: the collector runs it (BPF_PROG_RUN), one thread at a time. */
SEC("raw_tp/identify")
int unwind_identify(void *context)
{
	__u32 asked = UNWIND_ASKED, answer = UNWIND_INODE, other_answer = UNWIND_ALONE;
	struct scratch *s = scratch_of(CONTEXT_IDENTIFY);
	__u64 *address = bpf_map_lookup_elem(&unwind_words, &asked);
	__u64 *inode = bpf_map_lookup_elem(&unwind_words, &answer);
	__u64 *alone = bpf_map_lookup_elem(&unwind_words, &other_answer);
	struct task_struct *task = (void *)bpf_get_current_task();

	if (!s || !address || !inode || !alone)
		return 0;
	*(volatile __u64 *)&s->unwind.mm = (__u64)BPF_CORE_READ(task, mm);
	s->unwind.address = *address;
	*alone = 0;
	*inode = unwind_look_at_mapping(GIVE_SCRATCH(s)) ? s->unwind.inode : 0;
	if (!*inode)
		return 0;
	struct vm_area_struct *mapping = (void *)unwind_mapping(GIVE_SCRATCH(s));

	if (!mapping)
		return 0;
	/* All mappings of a file, of all processes, are a tree; a tree of one has no branches. */
	struct rb_node *root = BPF_CORE_READ(mapping, vm_file, f_mapping, i_mmap.rb_root.rb_node);

	*alone = root && !BPF_CORE_READ(root, rb_left) && !BPF_CORE_READ(root, rb_right);
	return 0;
}
