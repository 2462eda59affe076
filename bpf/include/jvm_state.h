/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What walks keep of Java virtual machines: jvm.h. A part of unwind.h.
 */
#ifndef SYSCOLLECT_JVM_STATE_H
#define SYSCOLLECT_JVM_STATE_H

#include "users.h"

/* Processes with a machine; of a share of users: who runs thousands pushes out his own. */
#define JVM_PROCESSES 64
/* In place of a rule's offset: code that no file has. */
#define ROW_WITHOUT_FILE ((__u64)CFA_NONE << 16 | 1ULL << 32)
/* In place of a file's number: the file has a machine, and of any file its number. */
#define ROW_HAS_JVM 0x8000u
#define ROW_FILE(row) ((row) & (UNWIND_FILES - 1))
/* The code is none of the machine's; it is a stub's. Besides UNWIND_* of unwind.h. */
#define JVM_NONE 18
#define JVM_STUB 19

/* How processes have mapped a machine. */
struct jvm_process {
	__u64 space, bias, file;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct jvm_process));
	__uint(max_entries, JVM_PROCESSES * USER_SHARES);
} jvm_processes SEC(".maps");

/* Files with a machine, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct HotspotFile));
	__uint(max_entries, HOTSPOT_FILES);
} hotspot_files SEC(".maps");

static __always_inline struct jvm_process *jvm_process_of(const struct unwind *u)
{
	__u32 share = user_share(bpf_get_current_uid_gid());
	__u32 slot = share * JVM_PROCESSES + ((u->space >> 32) & (JVM_PROCESSES - 1));

	return bpf_map_lookup_elem(&jvm_processes, &slot);
}

/* Whether the process is known to have a machine. */
static __always_inline bool jvm_is_noted(const struct unwind *u)
{
	struct jvm_process *process = jvm_process_of(u);

	return process && process->space == u->space;
}

/* The process has a machine, in the file that was looked at last, of this number. */
static __always_inline void jvm_note_mapped(const struct unwind *u, __u32 file)
{
	struct jvm_process *process = jvm_process_of(u);

	if (!process)
		return;
	*(volatile __u64 *)&process->space = 0;
	process->bias = u->code_bias;
	process->file = file;
	order_stores();
	*(volatile __u64 *)&process->space = u->space;
}

/* Processes with a Java virtual machine of which it is kept where their code lies; code heaps of
 * one; bytes that are read of a piece of code, and of instructions around an address. */
#define JVM_LAYOUTS 8
#define JVM_HEAPS 4
#define JVM_PIECE_BYTES 128
#define JVM_BYTES_BEFORE 16
#define JVM_BYTES_AHEAD 112
/* Words of a virtual thread's entry on the stack, and of the two behind it (jvm_continuation.h). */
#define JVM_ENTRY_WORDS 10

struct jvm_heap {
	__u64 start, bytes, segments;
	__u32 shift, unused;
};

struct jvm_layout {
	__u64 space, bias, interpreter, call_stub;
	__u32 file, interpreter_bytes;
	__u32 block_header;
	__u16 complete_bytes, code_bytes;
	__u64 members[MEMBERS];
	/* What says where virtual threads' frames are, once that is known. */
	__u64 knows_continuations, continuation[CONTINUATIONS];
	struct jvm_heap heaps[JVM_HEAPS];
};

/* What is found of a frame of Java: jvm.h. */
struct jvm {
	/* Whether the layout was read in this walk; whether the frame before is a stub's; whether a
	 * frame of code that no file has was walked by, of which it was not known whose it is. */
	__u32 was_read, was_stub, was_guessed;
	/* Steps in maps of segments and chunks in this walk, and entries of virtual threads that were
	 * looked for. */
	__u32 steps, entries;
	/* The piece of code: where its instructions begin and end, bytes of its frame, and from which
	 * instruction on it has that. */
	__u64 code, end;
	__s64 frame_bytes, complete;
	/* Where the caller's stack pointer may be, and where it may be returned to. */
	__u64 cfa, returns;
	/* What is read on the way to the layout: stacks of programs are short. */
	__u64 list, data, queue, number, heap, low, high;
	__u32 count, shift;
	/* Of a virtual thread: where a frame returns to whose caller is in the heap, where the walk leaves
	 * the chunk of frames that it is in, 0 if it is in none; a pointer of the heap's; the entry on the
	 * stack, and where it lies. */
	__u64 barrier, chunk_end, pointer, entry_at, entry[JVM_ENTRY_WORDS];
	/* Links of frames in a chunk count words from where they are kept: 3 and all bits there, else 0,
	 * see JVM_LINK. */
	__u64 link_shift, link_base;
	struct jvm_layout layouts[JVM_LAYOUTS];
	__u8 piece[JVM_PIECE_BYTES + 8];
	__u8 bytes[JVM_BYTES_BEFORE + JVM_BYTES_AHEAD];
};

#endif
