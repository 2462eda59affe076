/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What instrumented programs announce: whether it can be an arena, and how much of it
 * a user's programs may have looked at.
 *
 * Any program can hit the probe, as often as it likes, with any descriptor. So
 * the descriptor is looked at here, in the time of whoever hits the probe, and
 * what is beyond a user's share is not passed on: it would push out of the ring
 * buffer what others announce.
 */
#ifndef SYSCOLLECT_ANNOUNCE_H
#define SYSCOLLECT_ANNOUNCE_H

#include "probe.h"

_Static_assert(sizeof(struct RingRecord) <= sizeof(struct ProbeRecord),
	       "an announcement's words lie behind it");

/* Bytes from the start of kernel structures to members of them; the collector
 * knows them from the kernel's BTF. */
const volatile __u32 TASK_FILES = 0;
const volatile __u32 TASK_LEADER = 0;
const volatile __u32 TASK_START = 0;
const volatile __u32 FILES_TABLE = 0;
const volatile __u32 TABLE_SIZE = 0;
const volatile __u32 TABLE_FILES = 0;
const volatile __u32 FILE_INODE = 0;
const volatile __u32 INODE_NUMBER = 0;
const volatile __u32 INODE_SIZE = 0;
const volatile __u32 INODE_SUPERBLOCK = 0;
const volatile __u32 SUPERBLOCK_DEVICE = 0;
/* Where memfds lie, and how large an arena is. A size of 0: nobody knows. */
const volatile __u32 ARENA_DEVICE = 0;
const volatile __u64 ARENA_SIZE = 0;

/* A word of the kernel's memory; 0 where it cannot be read. */
static __always_inline __u64 kernel_word(struct probe_scratch *s, __u64 address)
{
	return bpf_probe_read_kernel(&s->word, 8, (void *)address) ? 0 : s->word;
}

/* Sets what the record's descriptor is in the current process. Nothing is held
 * meanwhile: a file that another thread closes may be misread, so whoever takes
 * the record opens the file all the same. */
static __noinline int look_at_announced(struct probe_scratch *s)
{
	struct RingRecord *record = &s->announcement;
	__u64 at, descriptor = record->descriptor;

	record->inode = 0;
	record->announced = ANNOUNCED_UNKNOWN;
	if (!ARENA_SIZE)
		return 0;
	record->announced = ANNOUNCED_OTHER;
	at = kernel_word(s, bpf_get_current_task() + TASK_FILES);
	at = kernel_word(s, at + FILES_TABLE);
	if (descriptor >= (__u32)kernel_word(s, at + TABLE_SIZE))
		return 0;
	at = kernel_word(s, at + TABLE_FILES);
	at = kernel_word(s, at + descriptor * 8);
	at = kernel_word(s, at + FILE_INODE);
	if (!at || kernel_word(s, at + INODE_SIZE) != ARENA_SIZE)
		return 0;
	record->inode = kernel_word(s, at + INODE_NUMBER);
	at = kernel_word(s, at + INODE_SUPERBLOCK);
	if ((__u32)kernel_word(s, at + SUPERBLOCK_DEVICE) == ARENA_DEVICE)
		record->announced = ANNOUNCED_ARENA;
	else
		record->inode = 0;
	return 0;
}

#define ANNOUNCE_WINDOW 100000000ULL
#define YOUNG_PROCESS 1000000000ULL
/* Announcements of a user that are passed on in a window, and those of processes
 * that live for less than a second: who starts such without end leaves some to
 * the user's other programs. The ring buffer has room for 5,461 of all users. */
#define ARENAS_MAX 512
#define ARENAS_OF_YOUNG_MAX 384
/* The same of descriptors that are no arenas. Programs that close all their
 * descriptors announce such; they are few, and it takes long to find what they mean. */
#define OTHERS_MAX 16
#define OTHERS_OF_YOUNG_MAX 12

/* Users by their ids; above 65,535 lie ids that one user may have all of, as
 * containers without root do, in runs of 65,536. Each half has so many shares
 * that few users have one together. */
#define ANNOUNCERS 1024

/* What programs of a user announced. The collector reads it. */
struct announcer {
	/* In nanoseconds: when the window began, in which so many were passed on. */
	__u64 since;
	__u64 arenas;
	__u64 others;
	/* What was not passed on, since the recording began: of arenas and processes of
	 * which the one before was not, too. Further rings of the same are found anyway. */
	__u64 arenas_unheard;
	__u64 others_unheard;
	__u64 last_inode;
	__u32 last_process;
	/* Whose was not passed on, the last. */
	__u32 user;
	__u64 reserved;
};
_Static_assert(sizeof(struct announcer) == 64, "size of announcer");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct announcer));
	__uint(max_entries, ANNOUNCERS);
	__uint(map_flags, BPF_F_MMAPABLE);
} announcers SEC(".maps");

static __always_inline __u32 announcer_of(__u32 user)
{
	__u32 half = ANNOUNCERS / 2, run = user >> 16;

	return run ? half + (run & (half - 1)) : user & (half - 1);
}

/* Whether the current process has not lived for long. */
static __always_inline bool is_young(struct probe_scratch *s)
{
	__u64 leader = kernel_word(s, bpf_get_current_task() + TASK_LEADER);

	return bpf_ktime_get_ns() - kernel_word(s, leader + TASK_START) < YOUNG_PROCESS;
}

/* Whether the record is to be passed on. CPUs count together without a lock: in a
 * window one or two more may be. */
static __noinline int may_announce(const struct RingRecord *record)
{
	__u32 index = announcer_of(record->user);
	struct announcer *a = bpf_map_lookup_elem(&announcers, &index);
	__u64 now = bpf_ktime_get_ns();

	if (!a)
		return 0;
	if ((__s64)(now - a->since) >= (__s64)ANNOUNCE_WINDOW) {
		a->since = now;
		a->arenas = 0;
		a->others = 0;
	}
	if (record->announced == ANNOUNCED_OTHER) {
		bool is_new = a->last_process != record->tgid;

		a->last_process = record->tgid;
		if (a->others < (record->is_young ? OTHERS_OF_YOUNG_MAX : OTHERS_MAX)) {
			count_one(a->others);
			return 1;
		}
		if (is_new)
			count_one(a->others_unheard);
	} else {
		bool is_new = a->last_inode != record->inode;

		a->last_inode = record->inode;
		if (a->arenas < (record->is_young ? ARENAS_OF_YOUNG_MAX : ARENAS_MAX)) {
			count_one(a->arenas);
			return 1;
		}
		if (is_new)
			count_one(a->arenas_unheard);
	}
	a->user = record->user;
	return 0;
}

#endif
