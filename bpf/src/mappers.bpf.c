/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who has a file mapped: by the kernel's own tree of all mappings of the file,
 * which is the very one that it visits to put breakpoints there.
 *
 * Lists of processes' mappings tell less: file systems that lie over others
 * show names and numbers of their own, who changes mappings all the time keeps
 * the lists from being read, and all processes have to be looked at to find the
 * few that matter.
 *
 * The tree is read while it changes, without its lock, which programs cannot
 * take. Each step depends on where the walk is and on nothing before, so that
 * what is moved in the tree is found all the same; where a step leads nowhere,
 * the walk is broken off and says so. (bpf_loop, bpf_find_vma: 5.17.)
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Processes that are told of, and steps: each mapping takes two or three. */
#define MAPPERS_MAX 16384
#define STEPS_MAX (1 << 16)
/* Processes that were told of lately, so that each is once or a few times. */
#define RECENT_MAX 4096
#define PAGE_SHIFT 12

/* What is asked, and answered: as collector/capture/src/probes/mapping_tree.rs has it. */
struct mappers_asked {
	/* A mapping of the file in the process that asks, and its open file. */
	__u64 address;
	__u64 fd;
	/* Pages of the file: the first and the last that matter. */
	__u64 first;
	__u64 last;
	/* Mappers that were found: one process may be several. */
	__u64 found;
	/* WALK_... */
	__u64 ended;
	__u64 steps;
	__u64 reserved;
};
#define WALK_NOT_BEGUN 0
/* It came to the tree's end. */
#define WALK_DONE 1
/* There are more than there is room and time for. */
#define WALK_FULL 2
/* The tree changed where it was. */
#define WALK_BROKEN 3
/* This kernel does not say whose memory is. */
#define WALK_NO_OWNERS 4

struct mapper {
	/* The same for all mappings of a process. */
	__u64 memory;
	/* Of whom the memory is; 0 if it is nobody's any more. */
	__u32 pid;
	/* Who runs it; and who made the outermost user namespace that it runs in, if that is not
	 * the first. */
	__u32 user;
	__u32 maker;
	/* How often it has the file mapped, and all its mappings. */
	__u32 mappings;
	__u32 all;
	/* Whether the file is its program. */
	__u32 runs_it;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct mappers_asked));
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
} mappers_asked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct mapper));
	__uint(max_entries, MAPPERS_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
} mappers SEC(".maps");

/* Where in `mappers` a process may be. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, RECENT_MAX);
} recent_mappers SEC(".maps");

enum walk_step {
	/* Below this node are mappings that may matter: those to its left come first. */
	STEP_DOWN,
	/* What is to its left is done. */
	STEP_HERE,
	/* All below it is done. */
	STEP_UP,
};

/* Not on the stack: the verifier would follow each number through each step. */
struct walk {
	/* What the file's mappings lead to, and what the open file does, which may lie above it. */
	struct address_space *content;
	struct address_space *opened;
	/* The mapping by which the file was found. */
	struct vm_area_struct *own;
	struct rb_node *node;
	__u64 first;
	__u64 last;
	__u64 step;
	__u64 found;
	__u64 ended;
	__u64 steps;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct walk));
	__uint(max_entries, 1);
} mappers_walk SEC(".maps");

struct walk_pointer {
	struct walk *walk;
};

/* What lies at an address. */
struct found_mapping {
	struct vm_area_struct *mapping;
	struct address_space *content;
};

static __always_inline struct vm_area_struct *mapping_at(const struct rb_node *node)
{
	return (void *)node - bpf_core_field_offset(struct vm_area_struct, shared.rb);
}

/* Whether a mapping below this node reaches a page that matters. */
static __always_inline bool reaches(const struct rb_node *node, __u64 first)
{
	return node && BPF_CORE_READ(mapping_at(node), shared.rb_subtree_last) >= first;
}

/* Namespaces lie no deeper. */
#define NAMESPACES_MAX 33

struct namespaces {
	struct user_namespace *space;
	__u32 maker;
};

static long look_above(__u32 index, struct namespaces *namespaces)
{
	struct user_namespace *space = namespaces->space, *above = BPF_CORE_READ(space, parent);

	if (!above)
		return 1;
	namespaces->maker = BPF_CORE_READ(space, owner.val);
	namespaces->space = above;
	return 0;
}

/* The user who made the outermost namespace below the first, in which all users are real. */
static __always_inline __u32 maker_of(const struct cred *cred)
{
	struct namespaces namespaces = {.space = BPF_CORE_READ(cred, user_ns)};

	bpf_loop(NAMESPACES_MAX, look_above, &namespaces, 0);
	return namespaces.maker;
}

static __always_inline bool tell(struct walk *walk, const struct vm_area_struct *mapping)
{
	struct mm_struct *mm = BPF_CORE_READ(mapping, vm_mm);
	/* What is allocated lies some cache lines apart. */
	__u32 slot = ((__u64)mm >> 6) % RECENT_MAX;
	__u32 *recent = bpf_map_lookup_elem(&recent_mappers, &slot);

	if (!recent)
		return false;
	struct mapper *mapper = bpf_map_lookup_elem(&mappers, recent);

	if (mapper && *recent < walk->found && mapper->memory == (__u64)mm) {
		mapper->mappings++;
		return true;
	}
	__u32 index = walk->found;

	mapper = bpf_map_lookup_elem(&mappers, &index);
	if (!mapper)
		return false;
	*recent = index;
	struct task_struct *task = BPF_CORE_READ(mm, owner);
	struct address_space *program = BPF_CORE_READ(mm, exe_file, f_mapping);

	mapper->memory = (__u64)mm;
	mapper->mappings = 1;
	mapper->all = BPF_CORE_READ(mm, map_count);
	mapper->runs_it = program && (program == walk->content || program == walk->opened);
	mapper->pid = 0;
	mapper->user = 0;
	mapper->maker = 0;
	if (task) {
		const struct cred *cred = BPF_CORE_READ(task, real_cred);

		mapper->pid = BPF_CORE_READ(task, tgid);
		mapper->user = BPF_CORE_READ(cred, uid.val);
		mapper->maker = maker_of(cred);
	}
	walk->found++;
	return true;
}

/* As uprobes has it (valid_vma in kernel/events/uprobes.c). */
static __always_inline bool is_probed(const struct vm_area_struct *mapping)
{
	__u64 flags = BPF_CORE_READ(mapping, vm_flags);

	return (flags & (VM_WRITE | VM_HUGETLB | VM_MAYEXEC | VM_MAYSHARE)) == VM_MAYEXEC;
}

static __always_inline long end(struct walk *walk, __u64 how)
{
	walk->ended = how;
	return 1;
}

static long visit(__u32 index, struct walk_pointer *pointer)
{
	struct walk *walk = pointer->walk;
	struct rb_node *node = walk->node;
	struct vm_area_struct *mapping = mapping_at(node);

	walk->steps = index;
	if (walk->step == STEP_UP) {
		struct rb_node *above = (void *)(BPF_CORE_READ(node, __rb_parent_color) & ~3UL);

		if (!above)
			return end(walk, WALK_DONE);
		walk->node = above;
		if (BPF_CORE_READ(above, rb_left) == node)
			walk->step = STEP_HERE;
		else if (BPF_CORE_READ(above, rb_right) != node)
			return end(walk, WALK_BROKEN);
		return 0;
	}
	if (BPF_CORE_READ(mapping, vm_file, f_mapping) != walk->content)
		return end(walk, WALK_BROKEN);
	if (walk->step == STEP_DOWN) {
		struct rb_node *left = BPF_CORE_READ(node, rb_left);

		if (reaches(left, walk->first))
			walk->node = left;
		else
			walk->step = STEP_HERE;
		return 0;
	}
	__u64 first = BPF_CORE_READ(mapping, vm_pgoff);
	__u64 pages = (BPF_CORE_READ(mapping, vm_end) - BPF_CORE_READ(mapping, vm_start)) >> PAGE_SHIFT;

	/* They are sorted by that. */
	if (first > walk->last)
		return end(walk, WALK_DONE);
	bool matters = first + pages > walk->first && is_probed(mapping) && mapping != walk->own;

	if (matters && !tell(walk, mapping))
		return end(walk, WALK_FULL);
	struct rb_node *right = BPF_CORE_READ(node, rb_right);

	walk->step = STEP_UP;
	if (reaches(right, walk->first)) {
		walk->node = right;
		walk->step = STEP_DOWN;
	}
	return 0;
}

static long take(struct task_struct *task, struct vm_area_struct *mapping,
		 struct found_mapping *found)
{
	struct file *file = mapping->vm_file;

	found->mapping = mapping;
	if (file)
		found->content = file->f_mapping;
	return 0;
}

/* What an open file of this process leads to. */
static __always_inline struct address_space *opened_as(struct task_struct *task, __u64 fd)
{
	struct file **files = BPF_CORE_READ(task, files, fdt, fd), *file = 0;

	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file ? BPF_CORE_READ(file, f_mapping) : 0;
}

/* Run by the collector, on its own behalf. */
SEC("raw_tracepoint")
int find_mappers(void *context)
{
	__u32 zero = 0;
	struct mappers_asked *asked = bpf_map_lookup_elem(&mappers_asked, &zero);
	struct walk *walk = bpf_map_lookup_elem(&mappers_walk, &zero);
	struct task_struct *task = bpf_get_current_task_btf();
	struct found_mapping found = {};

	if (!asked || !walk)
		return 0;
	asked->found = 0;
	asked->ended = WALK_NOT_BEGUN;
	if (!bpf_core_field_exists(((struct mm_struct *)0)->owner)) {
		asked->ended = WALK_NO_OWNERS;
		return 0;
	}
	bpf_find_vma(task, asked->address, take, &found, 0);
	/* A variable of its own: BPF_CORE_READ would look for the type of `found` in the kernel. */
	struct address_space *content = found.content;

	if (!content)
		return 0;
	walk->own = found.mapping;
	walk->content = content;
	walk->opened = opened_as(task, asked->fd);
	walk->first = asked->first;
	walk->last = asked->last;
	walk->node = BPF_CORE_READ(content, i_mmap.rb_root.rb_node);
	walk->step = STEP_DOWN;
	walk->found = 0;
	/* Unless it ends before all steps are made. */
	walk->ended = WALK_FULL;
	if (reaches(walk->node, walk->first)) {
		struct walk_pointer pointer = {walk};

		bpf_loop(STEPS_MAX, visit, &pointer, 0);
	} else {
		walk->ended = WALK_DONE;
	}
	asked->found = walk->found;
	asked->ended = walk->ended;
	asked->steps = walk->steps;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
