/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * User stacks by unwind tables: whole ones, of programs without frame pointers.
 *
 * The collector makes tables from what compilers write for exceptions and puts
 * them into arrays that it has mapped (`bpf/records/src/unwind.rs` has the
 * rows). A walk needs, for each address, the row that holds there:
 *
 *   address -> what is mapped there (the kernel's own tree of the process's
 *   mappings) -> the file's number and the offset in it -> a page's rows -> a row
 *
 * Two caches stand before that, each of one CPU and context: rows by address,
 * ranges of code by address. Both belong to a process as it is mapped now: their
 * keys hold the kernel's own count of changes of its mappings. Nearly all frames
 * are walked by the first alone (unwind_known_frames).
 *
 * A page of which there are no rows yet is marked as wanted, by a plain store (also
 * where the collector has marked it as one that will be, which is another word);
 * the collector looks for such marks.
 *
 * The collector frees rows that no walk has used lately, and uses their place
 * for others' (`collector/capture/src/unwind/tables.rs`). Time is counted in
 * epochs, which pass only while rows are scarce. A search says in which epoch its
 * page was used last, by a plain store where that is another one; the epoch is
 * part of the caches' keys, so that each epoch's first use of an address is a
 * search. What a search has found counts only if the words that led to it are
 * the same afterwards: no two contents of a place have the same words, for these
 * have generations. What the caches keep are rows and not where these lay: those
 * stay right as long as the file is mapped.
 *
 * The functions are global ones: the verifier looks at each once, and not at
 * each call. They are handed the scratch and keep all they know in it
 * (scratch.h).
 */
#ifndef SYSCOLLECT_UNWIND_H
#define SYSCOLLECT_UNWIND_H

#include "config.h"
#include "lane.h"

#include <bpf/bpf_core_read.h>

#define USER_WINDOW_BYTES 1024
/* What is read below an address, too: a caller's rbp lies below its return address. */
#define USER_WINDOW_BELOW 64
/* A frame is at most this far above the one it called, bytes, where frame pointers say so. */
#define MAX_FRAME_BYTES (1u << 20)
/* No stack lies below: a lost rbp is a small number. */
#define LOWEST_STACK 4096
#define HASH_MULTIPLIER 0x9E3779B97F4A7C15ULL

/* Files that have tables, and pages of all of them; the collector sets how many rows there are. */
#define UNWIND_FILES 4096
#define UNWIND_PAGES 131072
#define UNWIND_ROWS_LEAST 4096
/* Of one CPU and context. */
#ifdef WALK_SLOTS
#define CACHES_OF_EACH WALK_SLOTS
#define KNOWN_ROWS_BITS 11
#else
#define CACHES_OF_EACH 1
#define KNOWN_ROWS_BITS 12
#endif
#define KNOWN_ROWS (1 << KNOWN_ROWS_BITS)
#define KNOWN_RANGES 256
/* Words of a stack of which a walk says where they lay; a power of two. */
#define KNOWN_WALK_WORDS 64

/* The walk's state. */
struct unwind {
	/* The frame that the walk has reached. */
	__u64 ip, sp, bp;
	/* The address whose row is looked for: of a caller it is that of its call. */
	__u64 address;
	/* What is found there: struct UnwindRow as a number. */
	__u64 row;
	/* The process: its mm, and what its mappings are called in the caches: the process and its
	 * program, for memory of an mm is used again, and how often they have changed. */
	__u64 mm, space, generation;
	/* Which it is, see above. */
	__u64 epoch;
	/* How many walks there were. */
	__u64 walks;
	/* The range of code that was looked at last: addresses, and what to add to one for its offset in
	 * the file; the file's inode and its id, 0 for a file without tables. */
	__u64 code_start, code_end, code_bias, inode;
	__u32 file;
	/* Which caches: CONTEXT_*. */
	__u32 context;
	/* How the walk came to the frame: FRAME_*. */
	__u32 reached;
	/* How the walk ended: UNWIND_*. */
	__u32 ending;
	/* Whether it is to end where it would guess: jvm_was_guessed. */
	__u64 ends_at_guess;
	__u64 hash;
	/* A word that was read. */
	__u64 word;
	/* Of a frame that stands: where its registers lie, in the kernel or in the frame of a signal. */
	__u64 registers;
	/* The function that a call goes to. */
	__u64 called;
	/* For stacks that are sent as they lie in memory: the stack's id, where it begins, for how many
	 * bytes of the ring memory was looked at, where the next part begins, and whether the frame that
	 * was reached returns to the word at its stack pointer. */
	__u64 stack, top, sent, part, returns_at_sp;
	__u64 saved[SAVED_REGISTERS];
	/* The words of the stack that the walk has read: how many, a hash of them, and where they lie, in
	 * words above the first frame: each, and the last. See known_walk.h. */
	__u64 first_sp, words, words_hash, last;
	__u16 places[KNOWN_WALK_WORDS];
	/* A node of the kernel's tree of mappings. */
	__u64 node[32];
#ifdef WALK_SLOTS
	/* Whether the innermost frame stands at its function's first instruction. */
	__u64 is_entry;
#endif
};

/* How a process has mapped the file of its interpreter. */
struct python_process {
	__u64 space, generation, bias, file;
};

#define PYTHON_PROCESSES 16

/* What is found of Python frames: python.h. */
struct python {
	/* The number of the interpreter's file, 0 if the walk has not come through one's loop; what to
	 * add to an address of the file for its offset. */
	__u32 file;
	/* The id that was given out last. */
	__u32 last_code;
	__u64 bias;
	/* The interpreter's thread state, and the frame that is looked at next. */
	__u64 thread, frame;
	/* A string: where it is, how many bytes it has, of how many a character. */
	__u64 text, text_bytes;
	__u32 text_kind;
	/* What a code object is called found no room. */
	__u32 lost;
	/* For records: when, and whose. */
	__u64 ticks;
	__u32 tgid;
	/* Bytes that this walk has sent of what code objects are called. */
	__u32 sent;
	__u64 hash;
	__u64 count;
	__u64 frames[MAX_FRAMES + 1];
	/* Where the structures of this interpreter lie. */
	struct PythonFile layout;
	/* What was read of a frame and its code object. */
	__u8 frame_bytes[PYTHON_FRAME_BYTES + 8];
	__u8 code[PYTHON_CODE_BYTES + 8];
	struct python_process processes[PYTHON_PROCESSES];
};

#include "jvm_state.h"

/* Working memory, one per CPU and context. */
struct scratch {
	__u64 frames[MAX_FRAMES + 1];
	__u64 window[STACK_MEMORY_PART_BYTES / 8];
	/* What `window` shows of the user's memory. It is kept here and not in
	 * registers so that the verifier knows nothing of it: every turn of the
	 * walk then looks the same to it, and it need not follow each path. */
	__u64 window_start;
	__u64 window_bytes;
	/* How many frames a walk found, for the same reason: see frames_found. */
	__u64 count;
	struct unwind unwind;
	struct python python;
	struct jvm jvm;
};

#include "scratch.h"

/* How a walk goes on or ends, besides STACK_* of records.h. */
enum {
	UNWIND_GOES_ON = 0,
	UNWIND_WHOLE = 16,
	/* The last address is no code: whatever gave it was not to be trusted. */
	UNWIND_NO_CODE = 17,
};

/* States of a page, in its upper 2 bits. Of one that is ready, a generation in 15, the number of
 * rows in 15, and the first in 32; else whose program came by. */
#define UNWIND_PAGE_STATE(entry) ((entry) >> 62)
#define UNWIND_PAGE_ROWS(entry) ((entry) >> 32 & 0x7fff)
#define UNWIND_PAGE_WANTED 1ULL
#define UNWIND_PAGE_READY 2ULL
/* The user whose program asked has no room for its rows; others may ask. */
#define UNWIND_PAGE_REFUSED 3ULL

/* Numbers that the collector and the programs tell one another: element of unwind_words. */
enum {
	/* Counts pages that were marked. */
	UNWIND_WANTED,
	/* An address of the collector's own, and the inode that is mapped there. */
	UNWIND_ASKED,
	UNWIND_INODE,
	/* And whether that mapping is the only one of the file. */
	UNWIND_ALONE,
	/* See above. */
	UNWIND_EPOCH,
	UNWIND_WORDS
};

/* In place of an inode: the vDSO. */
#define UNWIND_VDSO 1ULL

#define DEFINE_UNWIND_ARRAY(name, entries)                     \
	struct {                                               \
		__uint(type, BPF_MAP_TYPE_ARRAY);              \
		__uint(key_size, 4);                           \
		__uint(value_size, 8);                         \
		__uint(max_entries, entries);                  \
		__uint(map_flags, BPF_F_MMAPABLE);             \
	} name SEC(".maps");

DEFINE_UNWIND_ARRAY(unwind_rows, UNWIND_ROWS_LEAST)
/* Which rows a page has, and in which epoch a walk used them last. */
struct unwind_page {
	__u64 entry, used;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct unwind_page));
	__uint(max_entries, UNWIND_PAGES);
	__uint(map_flags, BPF_F_MMAPABLE);
} unwind_pages SEC(".maps");
/* By number. The first page in the low half, the number of pages in 18 bits, a generation in 13;
 * the top bit if there is an interpreter in it, or a virtual machine. */
DEFINE_UNWIND_ARRAY(unwind_files, UNWIND_FILES)
#define UNWIND_FILE_PAGES(file) ((file) >> 32 & 0x3ffff)
#define UNWIND_FILE_GENERATION(file) ((file) >> 50 & 0x1fff)
#define UNWIND_FILE_IS_MARKED(file) ((file) >> 63)
/* A file's id is its number and, above that, the number's generation: numbers are used again. */
#define UNWIND_ID_NUMBER(id) ((id) & (UNWIND_FILES - 1))
#define UNWIND_ID_GENERATION(id) ((id) >> 12)
DEFINE_UNWIND_ARRAY(unwind_words, UNWIND_WORDS)

/* Inodes (where they lie in the kernel) to files' ids. The collector has each of them mapped, so
 * that no other can come to lie there. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(key_size, 8);
	__uint(value_size, 4);
	__uint(max_entries, UNWIND_FILES);
} unwind_inodes SEC(".maps");

/* Files with an interpreter, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct PythonFile));
	__uint(max_entries, PYTHON_FILES);
} python_files SEC(".maps");

/* The row's own address is of no use here; in its place is the file's number where the address lies
 * in an interpreter's loop or in a Java virtual machine (mark_of). */
struct known_row {
	__u64 space, generation, address, row;
};

struct known_rows {
	struct known_row rows[KNOWN_ROWS];
};

struct known_range {
	__u64 space, generation, start, end, bias, inode, file;
};

/* Rows are one value of each CPU (the collector says how many there are), so that a walk looks for
 * them once, and not at each frame. */
#define DEFINE_UNWIND_CACHE(context)                             \
	struct {                                                 \
		__uint(type, BPF_MAP_TYPE_ARRAY);                \
		__uint(key_size, 4);                             \
		__uint(value_size, sizeof(struct known_rows));   \
		__uint(max_entries, CACHES_OF_EACH);             \
	} context##_rows SEC(".maps");                           \
	struct {                                                 \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);         \
		__uint(key_size, 4);                             \
		__uint(value_size, sizeof(struct known_range));  \
		__uint(max_entries, KNOWN_RANGES * CACHES_OF_EACH); \
	} context##_ranges SEC(".maps");

/* What the context of a walk, CONTEXT_* or the number of a hit of a probe, keeps at that place. */
#ifdef WALK_SLOTS
DEFINE_UNWIND_CACHE(probe)
#define OF_CONTEXT(context, cache, place, places)                     \
	({                                                            \
		__u32 at = (place) + (context) % WALK_SLOTS * places; \
		bpf_map_lookup_elem(&probe_##cache, &at);             \
	})

static __always_inline struct known_rows *known_rows_of(__u32 context)
{
	__u32 index = bpf_get_smp_processor_id() * WALK_SLOTS + context % WALK_SLOTS;

	return bpf_map_lookup_elem(&probe_rows, &index);
}

/* No walk of a hit is remembered. */
#define KEEPS_WORDS(context) false
#else
DEFINE_UNWIND_CACHE(sched)
DEFINE_UNWIND_CACHE(sample)
#define OF_CONTEXT(context, cache, place, places)                                          \
	((context) == CONTEXT_SAMPLE ? bpf_map_lookup_elem(&sample_##cache, &(place)) :    \
				       bpf_map_lookup_elem(&sched_##cache, &(place)))

static __always_inline struct known_rows *known_rows_of(__u32 context)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return context == CONTEXT_SAMPLE ? bpf_map_lookup_elem(&sample_rows, &cpu) :
					   bpf_map_lookup_elem(&sched_rows, &cpu);
}

/* Whose walks are remembered: known_walk.h. Samples come anywhere. */
#define KEEPS_WORDS(context) ((context) == CONTEXT_SCHED)
#endif

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * HASH_MULTIPLIER;
	return hash ^ hash >> 29;
}

/* Reads the window at `start`: that many bytes, up to `most`. */
static __always_inline bool read_window_of(struct scratch *s, __u64 start, __u64 bytes, __u64 most)
{
	if (bytes > most)
		bytes = most;
	s->window_start = start;
	/* By way of the scratch, as in frames_found: each of these numbers is a path otherwise. */
	*(volatile __u64 *)&s->window_bytes = bytes;
	bytes = *(volatile __u64 *)&s->window_bytes;
	if (bytes > most)
		return false;
	return !bpf_probe_read_user(s->window, bytes, (void *)start);
}

/* Reads the window at `start`: up to 1 KiB, up to the page's end. */
static __always_inline bool read_window(struct scratch *s, __u64 start)
{
	__u64 bytes = 4096 - (start & 4095);

	return read_window_of(s, start, bytes < 16 ? 16 : bytes, USER_WINDOW_BYTES);
}

#include "mappings.h"

/* Where the address's row lies in its page's: the last that is not above it. */
__noinline __u64 unwind_search(__u32 first, __u32 rows, __u32 address)
{
	__u32 low = first, high = first + rows;

	/* As many halvings as UNWIND_ROWS_MAX has. */
	for (int i = 0; i < 15; i++) {
		__u32 middle = low + (high - low) / 2;
		__u64 *row = bpf_map_lookup_elem(&unwind_rows, &middle);

		if (!row || high - low <= 1)
			break;
		if ((*row & 0xffff) <= address)
			low = middle;
		else
			high = middle;
	}
	__u64 *row = bpf_map_lookup_elem(&unwind_rows, &low);

	return row ? *row : 0;
}

/* Whether the loop of the interpreter in the file has this offset. */
static __always_inline bool is_in_loop(__u32 number, __u64 offset)
{
	struct PythonFile *file = bpf_map_lookup_elem(&python_files, &number);

	return file && ((offset >= file->loops[0] && offset < file->loops[1]) ||
			(offset >= file->loops[2] && offset < file->loops[3]));
}

/* What a row of a file with an interpreter says besides: the file's number if it is of the
 * interpreter's loop, or of a Java virtual machine, and which of both. */
static __always_inline __u32 mark_of(__u32 number, __u64 offset)
{
	if (is_in_loop(number, offset))
		return number;
	return bpf_map_lookup_elem(&hotspot_files, &number) ? ROW_HAS_JVM | number : 0;
}

/* The row of the file's offset: 1 if its page's rows are there. */
static __always_inline int row_of_offset(struct unwind *u)
{
	__u64 offset = u->address + u->code_bias;
	__u32 number = UNWIND_ID_NUMBER(u->file), more = offset / UNWIND_PAGE_BYTES;
	__u64 *place = bpf_map_lookup_elem(&unwind_files, &number);

	if (!place)
		return 1;
	__u64 file = *(volatile __u64 *)place;

	/* The number is another file's by now. */
	if (UNWIND_FILE_GENERATION(file) != UNWIND_ID_GENERATION(u->file))
		return 0;
	/* Beyond the file's pages there is no code that it describes. */
	if (more >= UNWIND_FILE_PAGES(file))
		return 1;
	__u32 index = (__u32)file + more;
	struct unwind_page *page = bpf_map_lookup_elem(&unwind_pages, &index);

	if (!page)
		return 1;
	__u64 entry = *(volatile __u64 *)&page->entry;

	if (UNWIND_PAGE_STATE(entry) != UNWIND_PAGE_READY) {
		__u32 word = UNWIND_WANTED, user = bpf_get_current_uid_gid();
		__u64 *wanted = bpf_map_lookup_elem(&unwind_words, &word);
		__u64 asked = UNWIND_PAGE_WANTED << 62 | user, refused = UNWIND_PAGE_REFUSED << 62 | user;

		/* Where another user has asked, that one's share may be used up, or its turn be late. */
		if (entry != asked && entry != refused && wanted) {
			*(volatile __u64 *)&page->entry = asked;
			*(volatile __u64 *)wanted += 1;
		}
		/* Frames of its own code are found without rows. */
		if (UNWIND_FILE_IS_MARKED(file) && bpf_map_lookup_elem(&hotspot_files, &number))
			jvm_note_mapped(u, number);
		return 0;
	}
	if (*(volatile __u64 *)&page->used != u->epoch)
		*(volatile __u64 *)&page->used = u->epoch;
	if (UNWIND_PAGE_ROWS(entry))
		u->row = unwind_search(entry, UNWIND_PAGE_ROWS(entry), offset % UNWIND_PAGE_BYTES) & ~0xffffULL;
	order_loads();
	/* The rows may be others' by now, or the page be another file's. */
	if (*(volatile __u64 *)&page->entry != entry || *(volatile __u64 *)place != file)
		return 0;
	if (UNWIND_FILE_IS_MARKED(file))
		u->row |= mark_of(number, offset);
	return 1;
}

/* Where an address's row is kept. */
static __always_inline struct known_row *known_row_at(struct known_rows *rows, __u64 space,
						      __u64 address)
{
	__u64 slot = (space ^ address) * HASH_MULTIPLIER >> (64 - KNOWN_ROWS_BITS);

	barrier_var(slot);
	slot &= KNOWN_ROWS - 1;
	return &rows->rows[slot];
}

/* Finds the row of the address: 0, UNWIND_NO_CODE, or STACK_NO_TABLE_YET. Code without a row has
 * one of CFA_NONE. */
__noinline int unwind_find_row(SCRATCH)
{
	TAKE_SCRATCH(UNWIND_NO_CODE);
	struct unwind *u = &s->unwind;
	__u32 context = u->context;
	struct known_rows *rows = known_rows_of(context);

	if (!rows)
		return UNWIND_NO_CODE;
	struct known_row *known = known_row_at(rows, u->space, u->address);

	if (known->address == u->address && known->space == u->space &&
	    known->generation == u->generation) {
		u->row = known->row;
		return 0;
	}
	__u32 near = (mix(u->space, u->address >> 16) >> 32) & (KNOWN_RANGES - 1);
	struct known_range *range = OF_CONTEXT(context, ranges, near, KNOWN_RANGES);

	if (!range)
		return UNWIND_NO_CODE;
	if (range->space == u->space && range->generation == u->generation &&
	    u->address - range->start < range->end) {
		u->code_start = range->start;
		u->code_end = range->start + range->end;
		u->code_bias = range->bias;
		u->inode = range->inode;
		u->file = range->file;
	} else {
		if (!unwind_look_at_mapping(GIVE_SCRATCH(s))) {
			u->file = 0;
			/* Something may be mapped there all the same. */
			return tree_is_locked((void *)u->mm) ? STACK_NO_TABLE_YET : UNWIND_NO_CODE;
		}
		/* On the stack: 6.1 takes no key in memory that a function was handed. */
		__u64 inode = u->inode;
		__u32 *file = bpf_map_lookup_elem(&unwind_inodes, &inode);

		u->file = file ? *file : 0;
		/* A file that is not known yet may be in a moment. */
		if (u->inode && !u->file)
			return STACK_NO_TABLE_YET;
		range->space = 0;
		range->generation = u->generation;
		range->start = u->code_start;
		range->end = u->code_end - u->code_start;
		range->bias = u->code_bias;
		range->inode = u->inode;
		range->file = u->file;
		range->space = u->space;
	}
	u->row = u->inode ? (__u64)CFA_NONE << 16 : ROW_WITHOUT_FILE;
	/* Code without a file is a program's own: it has no row, and nobody will make one. */
	if (u->file && !row_of_offset(u))
		return STACK_NO_TABLE_YET;
	known->space = 0;
	known->generation = u->generation;
	known->address = u->address;
	known->row = u->row;
	known->space = u->space;
	return 0;
}

/* A walk begins that has read nothing. */
static __always_inline void begin_words(struct unwind *u)
{
	u->first_sp = u->sp;
	u->words = 0;
	u->words_hash = 0;
	u->last = 0;
}

/* The walk has looked at something else than words of its stack. */
static __always_inline void look_elsewhere(struct unwind *u)
{
	u->last = ~0ULL;
}

/* The word at `address` was read, and the walk depends on it. */
static __always_inline void keep_word(struct unwind *u, __u64 address, __u64 word)
{
	if (!KEEPS_WORDS(u->context))
		return;
	__u64 place = (address - u->first_sp) >> 3, words = u->words;

	u->last = place > u->last ? place : u->last;
	u->words_hash = mix(u->words_hash, word);
	u->words = words + 1;
	words &= KNOWN_WALK_WORDS - 1;
	barrier_var(words);
	u->places[words] = place;
}

/* The word of the window at this offset, which has been compared with what it shows. */
static __always_inline __u64 window_word(const struct scratch *s, __u64 offset)
{
	offset >>= 3;
	offset &= STACK_MEMORY_PART_BYTES / 8 - 1;
	barrier_var(offset);
	return s->window[offset];
}

/* Reads the window that shows this word and what is above it, up to the page's end. Who needs a
 * second one has a large stack, of which it shows more: a call costs as much as a KiB. */
static __always_inline bool read_window_at(struct scratch *s, __u64 address)
{
	__u64 page = address & ~4095ULL, start = address - USER_WINDOW_BELOW, bytes, most;

	if (start < page)
		start = page;
	bytes = page + 4096 - start;
	most = s->window_bytes ? STACK_MEMORY_PART_BYTES : USER_WINDOW_BYTES;
	if (read_window_of(s, start, bytes < most ? bytes : most, STACK_MEMORY_PART_BYTES))
		return true;
	s->window_bytes = 0;
	return false;
}

/* Reads a word of the user's memory, by way of the window, into `word`. */
static __always_inline bool read_word(struct scratch *s, __u64 address)
{
	__u64 offset = address - s->window_start;

	if (address & 7)
		return false;
	if (offset >= s->window_bytes) {
		if (!read_window_at(s, address)) {
			look_elsewhere(&s->unwind);
			return false;
		}
		offset = address - s->window_start;
	}
	__u64 word = window_word(s, offset);

	s->unwind.word = word;
	keep_word(&s->unwind, address, word);
	return true;
}

_Static_assert(FRAME_CALLED >> 1 == 0 && FRAME_LINKED >> 1 == 0, "frames of callers");
_Static_assert(FRAME_RUNNING >> 1 == 1 && FRAME_INTERRUPTED >> 1 == 1, "frames that stand");

/* 1 where `ip` is where the frame stands, and not where a call returns to; 0 elsewhere. Without a
 * comparison: the verifier of 6.1 would follow both ways at every turn of a walk. */
static __always_inline __u64 standing(const struct unwind *u)
{
	__u64 reached = u->reached;

	barrier_var(reached);
	return reached >> 1;
}

/* A frame stands there; all registers are known. */
static __always_inline bool stands(const struct unwind *u)
{
	return standing(u);
}

/* Reads a register of a frame that stands into `word`, by DWARF's number in the lowest
 * four bits. */
static __always_inline bool read_register(struct unwind *u, __u32 number)
{
	bool interrupted = u->reached == FRAME_INTERRUPTED;
	__u64 order = interrupted ? INTERRUPTED_ORDER : RUNNING_ORDER;
	void *at = (void *)(u->registers + (order >> (number & 15) * 4 & 15) * 8);

	look_elsewhere(u);
	if (!stands(u))
		return false;
	return interrupted ? !bpf_probe_read_user(&u->word, 8, at)
			   : !bpf_probe_read_kernel(&u->word, 8, at);
}

/* Code without unwind information is assembly, whose functions are shorter than this, bytes. */
#define LEAF_FUNCTION_BYTES 16384

static __always_inline bool is_in_function(const struct unwind *u, __u64 start)
{
	return u->ip - start < LEAF_FUNCTION_BYTES;
}

static __always_inline __u64 bytes_at(struct unwind *u, __u64 address)
{
	look_elsewhere(u);
	return bpf_probe_read_user(&u->word, 8, (void *)address) ? 0 : u->word;
}

#include ARCH_CODE
#include "jvm.h"
#include "go_stack.h"

/* Frames that no table describes have their frame pointers, if anything. */
static __always_inline int unwind_by_frame_pointer(struct scratch *s)
{
	struct unwind *u = &s->unwind;
	__u64 bp = u->bp;

	if (stands(u) && unwind_returns_at_sp(GIVE_SCRATCH(s))) {
		u->ip = u->word;
		u->sp += 8;
		u->reached = FRAME_CALLED;
		return UNWIND_GOES_ON;
	}
	/* The convention for the first function of a thread, among functions that keep frame pointers.
	 * To others rbp is a register like any. */
	if (!bp)
		return u->reached == FRAME_LINKED ? UNWIND_WHOLE : STACK_NO_UNWIND_INFORMATION;
	if (bp < u->sp || bp - u->sp > MAX_FRAME_BYTES)
		return STACK_NO_UNWIND_INFORMATION;
	if (!read_word(s, bp))
		return STACK_UNREADABLE;
	__u64 caller_bp = u->word;

	if (!read_word(s, bp + 8))
		return STACK_UNREADABLE;
	/* Nor does a 0 say anything that lies behind where some other register's value leads. */
	if (!u->word)
		return u->reached == FRAME_LINKED ? UNWIND_WHOLE : STACK_NO_UNWIND_INFORMATION;
	u->bp = caller_bp;
	u->sp = bp + 16;
	u->ip = u->word;
	u->reached = FRAME_LINKED;
	return UNWIND_GOES_ON;
}

/* The walk has come to an interpreter's loop, in the file of this number. */
static __always_inline void unwind_note_python(struct scratch *s, __u32 file)
{
	struct unwind *u = &s->unwind;
	__u64 slot = (u->space >> 32) & (PYTHON_PROCESSES - 1);

	barrier_var(slot);
	struct python_process *process = &s->python.processes[slot];

	if (process->space != u->space || process->generation != u->generation || process->file != file) {
		if (!unwind_look_at_mapping(GIVE_SCRATCH(s)))
			return;
		process->space = u->space;
		process->generation = u->generation;
		process->bias = u->code_bias;
		process->file = file;
	}
	s->python.bias = process->bias;
	s->python.file = file;
}

/* The walk has come to code of a file that has a mark. */
static __always_inline void unwind_note(struct scratch *s, __u32 mark)
{
	if (mark & ROW_HAS_JVM)
		jvm_note(s, ROW_FILE(mark));
	else if (!s->python.file)
		unwind_note_python(s, mark);
}

/* Goes to the caller, or says why not. */
__noinline int unwind_step(SCRATCH)
{
	TAKE_SCRATCH(UNWIND_NO_CODE);
	struct unwind *u = &s->unwind;

	u->address = u->ip - 1 + standing(u);
	int missing = unwind_find_row(GIVE_SCRATCH(s));

	if (missing == UNWIND_NO_CODE)
		return missing;
	/* A guess by frame pointers would leave out the caller of a function without one. */
	if (missing)
		return STACK_NO_TABLE_YET;
	__u64 row = u->row;

	if (row & 0xffff)
		unwind_note(s, row & 0xffff);
	__u32 rule = row >> 16 & 0xff, frame_pointer = row >> 24 & 0xff;
	__u64 cfa = (__u64)(__s64)(__s16)(row >> 32) * 8, saved = (__u64)(__s64)(__s16)(row >> 48) * 8;

	switch (rule) {
	case CFA_NONE:
		if (cfa) {
			int ending = jvm_step(GIVE_SCRATCH(s));

			if (ending == JVM_STUB)
				ending = jvm_step_stub(GIVE_SCRATCH(s));
			if (ending == UNWIND_GOES_ON && jvm_leaves_part(s))
				return jvm_step_continuation(GIVE_SCRATCH(s));
			if (ending != JVM_NONE)
				return ending;
		}
		return unwind_by_frame_pointer(s);
	case CFA_INEXPRESSIBLE:
		return STACK_UNUSABLE_INFORMATION;
	case CFA_END:
		return UNWIND_WHOLE;
	case CFA_SIGNAL:
		return unwind_signal(s);
	case CFA_GO_SYSTEM_STACK:
	case CFA_GO_MORE_STACK:
	case CFA_GO_C_STACK:
		return unwind_go_stack(GIVE_SCRATCH(s));
	case CFA_PLT:
		cfa = u->sp + ((u->ip & 15) * 8 >= cfa ? 16 : 8);
		break;
	case CFA_RBP:
		cfa += u->bp;
		break;
	case CFA_RSP:
		cfa += u->sp;
		break;
	case CFA_RSP_FAR:
		cfa = u->sp + (row >> 32 & 0xffff) * 16;
		break;
	case CFA_AT_RSP:
	case CFA_AT_RSP_PLUS_WORD:
	case CFA_AT_RBP:
	case CFA_AT_RBP_PLUS_WORD:
		cfa += rule < CFA_AT_RBP ? u->sp : u->bp;
		if (!read_word(s, cfa))
			return STACK_UNREADABLE;
		cfa = u->word + ((rule - CFA_AT_RSP & 1) * 8);
		break;
	default:
		/* Of a caller nobody knows the registers that calls do not keep. */
		if (rule < CFA_REGISTER || !read_register(u, rule))
			return STACK_UNUSABLE_INFORMATION;
		cfa += rule < CFA_RETURN_REGISTER ? u->word : u->sp;
	}
	bool returns_by_register = rule >= CFA_RETURN_REGISTER;

	/* Stacks grow downwards: what does not rise is not a caller's. A function that goes to another
	 * stack, as coroutines do, keeps in rbp where its caller's is, which may lie anywhere. */
	if (cfa <= u->sp && !(rule == CFA_RBP && u->bp > LOWEST_STACK && cfa > u->bp) &&
	    !(returns_by_register && cfa == u->sp))
		return STACK_UNUSABLE_INFORMATION;
	if (frame_pointer != FRAME_POINTER_SAME) {
		saved += frame_pointer == FRAME_POINTER_AT_CFA ? cfa : u->bp;
		/* A word that cannot be read, too, is lost. */
		u->word = LOST_FRAME_POINTER;
		if (frame_pointer != FRAME_POINTER_LOST && !read_word(s, saved))
			u->word = LOST_FRAME_POINTER;
		u->bp = u->word;
	}
	if (returns_by_register ? !read_register(u, rule) : !read_word(s, cfa - 8))
		return STACK_UNREADABLE;
	/* Where a library makes a stack of its own, nothing has called its first function. */
	if (!u->word)
		return UNWIND_WHOLE;
	u->ip = u->word;
	u->sp = cfa;
	u->reached = FRAME_CALLED;
	return UNWIND_GOES_ON;
}

#include "known_frames.h"

/* Walks from the frame in the scratch: into frames, hash and ending. How many frames there are. */
__noinline int unwind_walk(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	/* By way of the scratch: see frames_found. */
	volatile __u64 *count = &s->count;

	s->window_bytes = 0;
	s->python.file = 0;
	s->jvm.was_read = 0;
	s->jvm.was_stub = 0;
	s->jvm.was_guessed = 0;
	s->jvm.steps = 0;
	s->jvm.entries = 0;
	s->jvm.barrier = 0;
	s->jvm.chunk_end = 0;
	s->jvm.link_shift = 0;
	s->jvm.link_base = 0;
	s->frames[0] = u->ip;
	*count = 1;
	u->ending = STACK_TOO_DEEP;
	/* Each turn is a frame at least, which is part of the hash once it is known to be code. */
	for (int turn = 1; turn < MAX_FRAMES; turn++) {
		__u64 frames = *count;

		if (frames >= MAX_FRAMES)
			break;
		int ending = unwind_step(GIVE_SCRATCH(s));

		if (ending) {
			/* An address that is no code is not shown, but the program's own is: there was code,
			 * before the thread ended or began to run another program. */
			if (ending == UNWIND_NO_CODE && frames > 1) {
				*count = frames - 1;
				u->ending = STACK_NO_UNWIND_INFORMATION;
				u->hash = mix(u->hash, u->ending);
				return 0;
			}
			u->ending = ending == UNWIND_NO_CODE ? STACK_MEMORY_GONE : ending;
			break;
		}
		u->hash = mix(u->hash, s->frames[frames - 1 & MAX_FRAMES]);
		/* Readers look a byte before it. */
		s->frames[frames] = u->ip + standing(u);
		*count = frames + 1;
		unwind_known_frames(GIVE_SCRATCH(s));
	}
	u->hash = mix(mix(u->hash, s->frames[*count - 1 & MAX_FRAMES]), u->ending);
	return 0;
}

#endif
