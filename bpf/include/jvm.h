/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Frames of Java: what HotSpot, the virtual machine of OpenJDK, knows of the code
 * that it makes. A part of unwind.h, with whose state it works.
 *
 * Compiled methods keep no frame pointers, and no file describes them. The machine
 * keeps its code in heaps; a map of segments leads from an address to the piece of
 * code that holds it, and that says how large its frames are. Where all this lies
 * the file of the machine says (`HotspotFile`, found by the collector), and of the
 * offsets in structures at which places of its memory each process has them.
 *
 * A walk that comes by the machine's own code notes in which process that is: each
 * of its threads begins there. Other programs pay nothing.
 *
 * All of it is memory of the program's, which may hold anything: loops have bounds,
 * nothing is followed but by reading, and a caller is believed only if there is a
 * call before the address that it is returned to. Where a frame cannot be told for
 * certain the stack ends.
 */
#ifndef SYSCOLLECT_JVM_H
#define SYSCOLLECT_JVM_H

/* Members lie within so many bytes of their structure. */
#define JVM_OFFSET_MAX 4096
/* Steps from a segment to where its piece begins: each is up to 254 segments, of 128 bytes as a rule. */
#define JVM_SEGMENT_STEPS 32
/* And in a walk, with the chunks of virtual threads: most frames need one or two. */
#define JVM_STEPS_OF_WALK 1024
#define JVM_SEGMENT_FREE 0xff

/* The walk has come to a machine's own code, in the file of this number. */
static __always_inline void jvm_note(struct scratch *s, __u32 file)
{
	struct unwind *u = &s->unwind;
	struct jvm_process *process = jvm_process_of(u);

	if (process && process->space == u->space && process->file == file)
		return;
	if (unwind_look_at_mapping(GIVE_SCRATCH(s)))
		jvm_note_mapped(u, file);
}

/* Whether the walk is to be done again. It has guessed of frames by their frame pointers, and then
 * heard that the process has a machine, whose frames have none: it may have left some out. Or it has
 * come to code of which it is not known yet whether it is a machine's: then the next one ends where
 * this one guessed, and the rest is found by what is known later. */
static __always_inline bool jvm_was_guessed(const struct scratch *s)
{
	return s->jvm.was_guessed && (s->unwind.ending == STACK_NO_TABLE_YET || jvm_is_noted(&s->unwind));
}

static __always_inline bool jvm_read(__u64 *word, __u64 address)
{
	return !bpf_probe_read_user(word, 8, (void *)address);
}

static __always_inline bool jvm_read_number(__u32 *number, __u64 address)
{
	return !bpf_probe_read_user(number, 4, (void *)address);
}

/* What is known of the process: where its code heaps lie, and what is where in its structures. */
static __always_inline struct jvm_layout *jvm_layout_of(struct scratch *s)
{
	__u64 slot = (s->unwind.space >> 32) & (JVM_LAYOUTS - 1);

	barrier_var(slot);
	return &s->jvm.layouts[slot];
}

/* Reads at which byte of its structure each member lies. */
__noinline int jvm_read_members(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct jvm_layout *layout = jvm_layout_of(s);
	__u32 number = layout->file;
	struct HotspotFile *file = bpf_map_lookup_elem(&hotspot_files, &number);

	if (!file)
		return 0;
	for (int i = 0; i < MEMBERS; i++) {
		if (!jvm_read(&layout->members[i], file->members[i] - layout->bias) ||
		    layout->members[i] >= JVM_OFFSET_MAX)
			return 0;
	}
	return 1;
}

/* Reads where the code heap of that number lies. */
__noinline int jvm_read_heap(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct jvm *j = &s->jvm;
	struct jvm_layout *layout = jvm_layout_of(s);
	__u64 number = j->number & (JVM_HEAPS - 1);

	barrier_var(number);
	struct jvm_heap *heap = &layout->heaps[number];

	heap->bytes = 0;
	if (number >= j->count)
		return 1;
	if (!jvm_read(&j->heap, j->data + number * 8) ||
	    !jvm_read(&j->low, j->heap + layout->members[MEMBER_MEMORY] +
				       layout->members[MEMBER_LOW_BOUNDARY]) ||
	    !jvm_read(&j->high, j->heap + layout->members[MEMBER_MEMORY] +
					layout->members[MEMBER_HIGH_BOUNDARY]) ||
	    !jvm_read(&heap->segments,
		      j->heap + layout->members[MEMBER_SEGMENTS] + layout->members[MEMBER_LOW]) ||
	    !jvm_read_number(&j->shift, j->heap + layout->members[MEMBER_SEGMENT_SIZE]))
		return 0;
	heap->start = j->low;
	heap->shift = j->shift & 31;
	if (j->high > j->low)
		heap->bytes = j->high - j->low;
	return 1;
}

/* Reads where the interpreter lies, the code heaps, and what native code calls methods by. */
__noinline int jvm_read_places(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct jvm *j = &s->jvm;
	struct jvm_layout *layout = jvm_layout_of(s);
	__u32 number = layout->file;
	struct HotspotFile *file = bpf_map_lookup_elem(&hotspot_files, &number);

	if (!file)
		return 0;
	layout->block_header = file->block_header;
	layout->complete_bytes = file->frame_complete_bytes;
	layout->code_bytes = file->code_offset_bytes;
	return jvm_read(&layout->call_stub, file->call_stub - layout->bias) &&
	       jvm_read(&j->queue, file->interpreter - layout->bias) &&
	       jvm_read(&layout->interpreter, j->queue + layout->members[MEMBER_INTERPRETER_BEGIN]) &&
	       jvm_read_number(&layout->interpreter_bytes,
			       j->queue + layout->members[MEMBER_INTERPRETER_SIZE]) &&
	       jvm_read(&j->list, file->heaps - layout->bias) &&
	       jvm_read_number(&j->count, j->list + layout->members[MEMBER_LENGTH]) &&
	       jvm_read(&j->data, j->list + layout->members[MEMBER_DATA]);
}

/* Reads all that is to be known of the process. 1 if it has a machine that has made code. */
__noinline int jvm_read_layout(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct jvm_layout *layout = jvm_layout_of(s);
	struct jvm_process *process = jvm_process_of(&s->unwind);

	layout->space = 0;
	if (!process || process->space != s->unwind.space)
		return 0;
	layout->bias = process->bias;
	layout->file = process->file;
	layout->knows_continuations = 0;
	if (!jvm_read_members(GIVE_SCRATCH(s)) || !jvm_read_places(GIVE_SCRATCH(s)))
		return 0;
	for (int i = 0; i < JVM_HEAPS; i++) {
		*(volatile __u64 *)&s->jvm.number = i;
		if (!jvm_read_heap(GIVE_SCRATCH(s)))
			return 0;
	}
	layout->space = s->unwind.space;
	return 1;
}

/* Whether the address is of the machine's code. */
static __always_inline bool jvm_holds(const struct jvm_layout *layout, __u64 address)
{
	bool holds = false;

#pragma unroll
	for (int i = 0; i < JVM_HEAPS; i++)
		holds |= address - layout->heaps[i].start < layout->heaps[i].bytes;
	return holds;
}

/* Whether the code at the walk's address is the machine's. Its heaps are there before its first
 * code is, so what was read once holds; else it is read once more in this walk. */
static __always_inline bool jvm_is_known(struct scratch *s)
{
	struct unwind *u = &s->unwind;
	struct jvm_layout *layout = jvm_layout_of(s);

	if (layout->space == u->space && jvm_holds(layout, u->address))
		return true;
	if (s->jvm.was_read)
		return false;
	s->jvm.was_read = 1;
	return jvm_read_layout(GIVE_SCRATCH(s)) && jvm_holds(layout, u->address);
}

/* A number of a piece of code, at an offset that the process says. */
#define JVM_FIELD(j, type, offset)                               \
	({                                                       \
		__u64 at = (offset) & (JVM_PIECE_BYTES - 1);     \
		barrier_var(at);                                 \
		*(type *)((j)->piece + at);                      \
	})

/* The piece of code that holds the walk's address: where its instructions begin and end, how large
 * its frames are, and from where on. */
__noinline int jvm_find_piece(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	struct jvm *j = &s->jvm;
	struct jvm_layout *layout = jvm_layout_of(s);
	__u64 start = 0, segments = 0;
	__u32 shift = 0;
	__u8 tag = JVM_SEGMENT_FREE;

#pragma unroll
	for (int i = 0; i < JVM_HEAPS; i++) {
		struct jvm_heap *heap = &layout->heaps[i];

		if (u->address - heap->start < heap->bytes) {
			start = heap->start;
			segments = heap->segments;
			shift = heap->shift;
		}
	}
	__u64 segment = (u->address - start) >> (shift & 31);

	if (j->steps > JVM_STEPS_OF_WALK)
		return 0;
	for (int i = 0; i < JVM_SEGMENT_STEPS; i++) {
		j->steps++;
		if (bpf_probe_read_user(&tag, 1, (void *)(segments + segment)))
			return 0;
		if (!tag || tag == JVM_SEGMENT_FREE)
			break;
		segment -= tag;
	}
	if (tag)
		return 0;
	__u64 piece = start + (segment << (shift & 31)) + layout->block_header;

	if (bpf_probe_read_user(j->piece, JVM_PIECE_BYTES, (void *)piece))
		return 0;
	j->end = piece + JVM_FIELD(j, __u32, layout->members[MEMBER_SIZE]);
	j->code = JVM_FIELD(j, __u64, layout->members[MEMBER_CODE]);
	if (layout->code_bytes)
		j->code = piece + (layout->code_bytes == 2 ? j->code & 0xffff : (__u32)j->code);
	j->frame_bytes = JVM_FIELD(j, __s32, layout->members[MEMBER_FRAME_SIZE]) * 8LL;
	__s32 complete = JVM_FIELD(j, __s32, layout->members[MEMBER_FRAME_COMPLETE]);

	j->complete = layout->complete_bytes == 2 ? (__s16)complete : complete;
	return u->address >= j->code && u->address < j->end;
}

#include ARCH_JVM_FRAMES
#include "jvm_continuation.h"

#endif
