/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The few kernel types that the programs read. CO-RE relocates every field
 * access to the running kernel's layout, so that only names must be right
 * here; a suffix after three underscores names an older or newer shape of the
 * same type.
 */
#ifndef SYSCOLLECT_KERNEL_H
#define SYSCOLLECT_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_F_USER_STACK = 1ULL << 8,
	BPF_F_MMAPABLE = 1U << 10,
};
enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
};
/* What bpf_ringbuf_query is asked. */
enum {
	BPF_RB_CONS_POS = 2,
	BPF_RB_PROD_POS = 3,
};
#define BPF_F_CURRENT_CPU 0xffffffffULL

/* Flags of task_struct.flags, include/linux/sched.h, unchanged from 5.10 to 7.2. */
#define PF_KTHREAD 0x00200000
/* Of vm_area_struct.vm_flags, include/linux/mm.h. */
#define VM_WRITE 2
#define VM_EXEC 4
#define VM_MAYEXEC 0x40
#define VM_MAYSHARE 0x80
#define VM_HUGETLB 0x00400000

#include "arch.h"

/* All accesses below are relocated. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct inode;

struct rb_node {
	/* The lowest bit is a color. */
	unsigned long __rb_parent_color;
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

/* A file's content, and who has it mapped. */
struct address_space {
	struct rb_root_cached i_mmap;
};

struct file {
	void *private_data;
	struct inode *f_inode;
	struct address_space *f_mapping;
};

/* Mappings of a process, since 6.1 in a maple tree. */
struct maple_tree {
	void *ma_root;
};

struct mm_struct;

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	/* Where it lies in the tree of all mappings of its file. */
	struct {
		struct rb_node rb;
		unsigned long rb_subtree_last;
	} shared;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct task_struct;

struct mm_struct {
	struct maple_tree mm_mt;
	int map_count;
	int mm_lock_seq;
	/* Where there are memory control groups. */
	struct task_struct *owner;
	struct file *exe_file;
	/* Where the stack of the first thread begins. */
	unsigned long start_stack;
	mm_context_t context;
};

/* Since 6.13 the count is of this type. */
typedef struct {
	unsigned sequence;
} seqcount_t;

struct mm_struct___6_13 {
	seqcount_t mm_lock_seq;
};

/* Who changes mappings holds this; the count's lowest bit says so. */
typedef struct {
	__s64 counter;
} atomic64_t;

struct rw_semaphore {
	atomic64_t count;
};

/* Before 6.1 mappings are a red-black tree, and what was found in it last is remembered together
 * with a count of how often one was taken out. */
struct mm_struct___before_6_1 {
	struct rb_root mm_rb;
	__u64 vmacache_seqnum;
	struct rw_semaphore mmap_lock;
};

struct vm_area_struct___before_6_1 {
	struct rb_node vm_rb;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct user_namespace {
	struct user_namespace *parent;
	kuid_t owner;
};

struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

/* A thread that has met a probe's breakpoint: the instruction that it steps over, and where its
 * copy lies. */
struct uprobe_task {
	unsigned long vaddr;
	unsigned long xol_vaddr;
};

struct task_struct {
	unsigned int __state;
	struct mm_struct *mm;
	void *stack;
	unsigned int flags;
	int prio;
	int wake_cpu;
	int pid;
	int tgid;
	unsigned in_iowait : 1;
	int exit_code;
	unsigned long nvcsw;
	unsigned long nivcsw;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_time;
	__u64 self_exec_id;
	const struct cred *real_cred;
	char comm[16];
	struct files_struct *files;
	struct thread_struct thread;
	/* Where there are probes in programs. */
	struct uprobe_task *utask;
};

/* Before 5.14 the state had this name and type. */
struct task_struct___before_5_14 {
	long state;
};

/* A 64-bit counter in a structure; what it is called within does not matter. */
typedef struct {
	__u64 value;
} local64_t;

struct hw_perf_event {
	local64_t prev_count;
};

struct perf_event {
	local64_t count;
	struct hw_perf_event hw;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

#endif
