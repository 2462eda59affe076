/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Python frames: which functions of a Python program the interpreter's loop is
 * in, read of CPython's own structures by what `PythonFile` says of the file.
 *
 * Only where the walk of the machine's frames has come through that loop: a
 * thread without it pays nothing. The interpreter's thread state is found by
 * the number that the C library gives the thread, once, and then known by the
 * kernel's.
 *
 * All of it is memory of the program's, which may hold anything: loops have
 * bounds, nothing is followed but by reading, and a code object is believed
 * only if its type is the interpreter's. What it is called goes to the stack
 * lane, once, before the first stack that refers to it. A code object may be
 * freed and another made in its place: what is known is told apart by all that
 * names it.
 */
#ifndef SYSCOLLECT_PYTHON_H
#define SYSCOLLECT_PYTHON_H

#include "clock.h"
#include "stack_memory.h"
#include "unwind.h"
#ifndef WALK_SLOTS
#include "stack_lane.h"
#endif

/* Of one CPU and context. */
#ifdef WALK_SLOTS
#define PYTHON_CODES 1024
#else
#define PYTHON_CODES 4096
#endif
/* Of a share of users, as that of stacks in memory: whoever runs thousands of threads pushes out
 * his own. */
#define PYTHON_THREADS 512
/* Threads that one walk looks at for its own; the next one goes on there. */
#define PYTHON_THREADS_AT_ONCE 48
/* Bytes of what code objects are called that one walk sends: some thirty of them. What is beyond
 * that is sent at the next ones; who makes them up has no more of a lane, and of the time, than
 * that. */
#define PYTHON_SENT_AT_ONCE 16384

struct known_code {
	__u64 hash;
	__u32 id;
	__u32 unused;
};

/* The interpreter's thread state of a thread of the kernel's; without one, where the search for it
 * goes on, or 0 and what was the first of all when it ended. */
struct python_thread {
	__u64 key, state, next, first;
};

#define DEFINE_PYTHON_CODES(context)                               \
	struct {                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);           \
		__uint(key_size, 4);                               \
		__uint(value_size, sizeof(struct known_code));     \
		__uint(max_entries, PYTHON_CODES * CACHES_OF_EACH); \
	} context##_codes SEC(".maps");

#ifdef WALK_SLOTS
DEFINE_PYTHON_CODES(probe)
#else
DEFINE_PYTHON_CODES(sched)
DEFINE_PYTHON_CODES(sample)
#endif

/* Written by all CPUs: whatever one finds there is looked at before it is used. No map that forgets
 * what was used least: a sample may interrupt who has that one's locks, and it would forget others'
 * threads for those of one user. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct python_thread));
	__uint(max_entries, PYTHON_THREADS * USER_SHARES);
} python_threads SEC(".maps");

static __always_inline bool read_user_word(__u64 *word, __u64 address)
{
	return !bpf_probe_read_user(word, 8, (void *)address);
}

/* A word that was read: `offset` says the file, so it may be anything. */
#define PYTHON_WORD(bytes, offset)                                           \
	({                                                                   \
		__u64 at = (offset) & (sizeof(bytes) - 9);                   \
		barrier_var(at);                                             \
		*(__u64 *)((bytes) + at);                                    \
	})

/* What is known of the thread of that key, or what is to be forgotten for it: each has
 * two places. */
static __always_inline struct python_thread *python_known_thread(struct python *p, __u64 key)
{
	__u32 share = user_share(bpf_get_current_uid_gid());
	__u32 slot = share * PYTHON_THREADS + ((key >> 32) & (PYTHON_THREADS - 1));
	struct python_thread *first = bpf_map_lookup_elem(&python_threads, &slot);

	if (!first || first->key == key)
		return first;
	slot ^= 1;
	struct python_thread *second = bpf_map_lookup_elem(&python_threads, &slot);

	return second && (second->key == key || p->ticks & 1) ? second : first;
}

/* The thread state of the current thread: into thread. 1 if there is one. */
__noinline int python_find_thread(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct python *p = &s->python;
	struct unwind *u = &s->unwind;
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 number = BPF_CORE_READ(task, THREAD_NUMBER);
	__u64 key = mix(u->space, (__u32)BPF_CORE_READ(task, pid));
	struct PythonFile *file = &p->layout;
	struct python_thread *known = python_known_thread(p, key);
	__u64 interpreter, first, next, found;

	if (!known || !number)
		return 0;
	if (known->key == key && known->state && read_user_word(&found, known->state + file->thread_id) &&
	    found == number) {
		p->thread = known->state;
		return 1;
	}
	if (!read_user_word(&interpreter, file->runtime - p->bias + file->interpreter) ||
	    !read_user_word(&first, interpreter + file->threads))
		return 0;
	/* New ones come first. */
	next = first;
	if (known->key == key && !known->state && known->first == first)
		next = known->next;
	known->key = key;
	known->state = 0;
	known->first = first;
	for (int i = 0; i < PYTHON_THREADS_AT_ONCE && next; i++) {
		if (!read_user_word(&found, next + file->thread_id)) {
			next = 0;
			break;
		}
		if (found == number) {
			known->state = next;
			p->thread = next;
			return 1;
		}
		if (!read_user_word(&next, next + file->thread_next))
			next = 0;
	}
	known->next = next;
	return 0;
}

/* How many bytes a string has, and where: into text_bytes, text and text_kind. */
__noinline int python_look_at_text(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct python *p = &s->python;
	struct PythonFile *file = &p->layout;
	__u64 object = p->text, length;
	__u32 state;

	p->text_bytes = 0;
	p->text_kind = 1;
	if (!read_user_word(&length, object + file->text_length) ||
	    bpf_probe_read_user(&state, 4, (void *)(object + file->text_state)))
		return 0;
	state >>= file->text_kind & 31;
	__u32 kind = state & 7;

	/* Characters that lie elsewhere: no code object's name is such a string. */
	if (!(state & 8))
		return 0;
	if (length > PYTHON_FILE_BYTES)
		length = PYTHON_FILE_BYTES;
	p->text = object + (state & 16 ? file->text_ascii : file->text_other);
	p->text_kind = kind;
	p->text_bytes = length * kind;
	return 0;
}

/* Puts bytes of the user's memory behind the `end` bytes that the record has, and counts them up to
 * a multiple of 8. How many they are: 0 if they cannot be read. What has a line table put behind it
 * is shorter than 2 KiB. */
#define PYTHON_APPEND(record, end, bytes, most, address)                                   \
	({                                                                                 \
		__u64 size = (bytes), to = (end) & 2047;                                   \
		if (size > (most))                                                         \
			size = (most);                                                     \
		barrier_var(to);                                                           \
		barrier_var(size);                                                         \
		if (size > (most) || bpf_probe_read_user((record) + to, size, (void *)(address))) \
			size = 0;                                                          \
		(end) += (size + 7) & ~7ULL;                                               \
		size;                                                                      \
	})

/* Sends what the code object is called that lies in `code`; its id, or 0. */
__noinline int python_send_code(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct python *p = &s->python;
#ifdef WALK_SLOTS
	__u8 *data = record_of(s);
	const __u64 begin = 0;

	if (!data)
		return 0;
	struct PythonFile *file = &p->layout;
#else
	struct LaneHeader *lane;
	__u8 *data;
	__u32 lane_bytes = SAMPLE_STACK_LANE_BYTES;
	void *shares = 0;

	if (s->unwind.context == CONTEXT_SAMPLE) {
		struct sample_stack_lane *of_samples = this_sample_stack_lane();

		if (!of_samples)
			return 0;
		lane = &of_samples->header;
		data = of_samples->data;
	} else {
		struct sched_stack_lane *of_switches = this_sched_stack_lane();

		if (!of_switches)
			return 0;
		lane = &of_switches->header;
		data = of_switches->data;
		lane_bytes = SCHED_STACK_LANE_BYTES;
		shares = &sched_stack_shares;
	}
	struct PythonFile *file = &p->layout;

	/* How long it is shows when it is written. */
	if (!stack_has_room(lane, lane_bytes, shares, LANE_SLACK)) {
		/* Once for this walk. */
		p->sent = PYTHON_SENT_AT_ONCE;
		return 0;
	}
	__u64 head = lane->head, begin = head & (lane_bytes - 1);

	barrier_var(begin);
#endif
	struct StackHeader *header = (void *)(data + begin);
	struct CodeHeader *code = (void *)(header + 1);
	__u8 *record = (void *)header;
	__u64 end = sizeof(*header) + sizeof(*code), lines = PYTHON_WORD(p->code, file->code_lines);
	__u64 bytes = 0;

	p->text = PYTHON_WORD(p->code, file->code_name);
	python_look_at_text(GIVE_SCRATCH(s));
	code->name_bytes = PYTHON_APPEND(record, end, p->text_bytes, PYTHON_NAME_BYTES, p->text);
	code->name_kind = p->text_kind;
	p->text = PYTHON_WORD(p->code, file->code_file);
	python_look_at_text(GIVE_SCRATCH(s));
	code->file_bytes = PYTHON_APPEND(record, end, p->text_bytes, PYTHON_FILE_BYTES, p->text);
	code->file_kind = p->text_kind;
	if (!read_user_word(&bytes, lines + file->bytes_length))
		bytes = 0;
	code->lines_bytes =
		PYTHON_APPEND(record, end, bytes, PYTHON_LINES_BYTES, lines + file->bytes_data);
	code->id = ++p->last_code & PYTHON_PLACE_MASK;
	code->first_line = PYTHON_WORD(p->code, file->code_first_line);
	for (int i = 0; i < 4; i++)
		code->loops[i] = file->loops[i] ? file->loops[i] - p->bias : 0;
	code->version = file->version;
	__builtin_memset(code->unused, 0, sizeof(code->unused));
	header->stamp = stamp(p->ticks, KIND_STACK);
	header->id = STACK_NONE;
	header->tgid = p->tgid;
	header->frames = (end - sizeof(*header)) >> 3;
	header->space = STACK_PYTHON_CODE;
	header->truncated = 0;
#ifdef WALK_SLOTS
	if (!send_record(s, end)) {
		p->sent = PYTHON_SENT_AT_ONCE;
		return 0;
	}
#else
	lane_publish(lane, head + end);
	if (shares)
		lane_give_back(shares, LANE_SLACK - end);
#endif
	p->sent += end;
	return code->id;
}

static __always_inline struct known_code *python_known_code(struct scratch *s, __u32 slot)
{
	return OF_CONTEXT(s->unwind.context, codes, slot, PYTHON_CODES);
}

/* The id of the code object in `code`, which lies at `address`, sent if it is not known. */
static __always_inline __u32 python_code_id(struct scratch *s, __u64 address)
{
	struct python *p = &s->python;
	struct PythonFile *file = &p->layout;
	__u64 hash = mix(s->unwind.space, address);

	hash = mix(hash, PYTHON_WORD(p->code, file->code_name));
	hash = mix(hash, PYTHON_WORD(p->code, file->code_file));
	hash = mix(hash, PYTHON_WORD(p->code, file->code_lines));
	hash = mix(hash, (__u32)PYTHON_WORD(p->code, file->code_first_line));
	p->hash = mix(p->hash, hash);
	/* Two places for each: functions of one stack do not push one another out. */
	__u32 slot = (hash >> 32) & (PYTHON_CODES - 1);
	struct known_code *known = python_known_code(s, slot);

	/* Where the collector had it forgotten meanwhile, the id is none. */
	if (known && known->hash == hash && known->id <= PYTHON_PLACE_MASK)
		return known->id;
	known = python_known_code(s, slot ^ 1);
	if (known && known->hash == hash && known->id <= PYTHON_PLACE_MASK)
		return known->id;
	if (p->sent >= PYTHON_SENT_AT_ONCE)
		return 0;
	__u32 id = python_send_code(GIVE_SCRATCH(s));

	known = python_known_code(s, slot ^ (id & 1));
	if (!known)
		return 0;

	if (id) {
		known->hash = hash;
		known->id = id;
	}
	return id;
}

/* Takes the frame at `frame`, and goes to its caller; 0 at the end. */
__noinline int python_step(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct python *p = &s->python;
	struct PythonFile *file = &p->layout;

	if (!p->frame)
		return 0;
	__u64 bytes = file->frame_bytes;

	if (bytes > PYTHON_FRAME_BYTES || bpf_probe_read_user(p->frame_bytes, bytes, (void *)p->frame))
		return 0;
	/* Pointers have marks in their low bits (3.14). */
	__u64 code = PYTHON_WORD(p->frame_bytes, file->frame_code) & ~7ULL;
	__u64 instruction = PYTHON_WORD(p->frame_bytes, file->frame_instruction);
	__u8 mark = PYTHON_WORD(p->frame_bytes, file->frame_entry);
	__u64 last = p->count - 1;

	p->frame = PYTHON_WORD(p->frame_bytes, file->frame_previous);
	if (file->entry == PYTHON_ENTRY_OWNER && mark >= 3) {
		if (last < MAX_FRAMES)
			p->frames[last] |= PYTHON_ENTRY;
		p->hash = mix(p->hash, PYTHON_ENTRY);
		return 1;
	}
	bytes = file->code_bytes;
	if (bytes > PYTHON_CODE_BYTES || bpf_probe_read_user(p->code, bytes, (void *)code) ||
	    PYTHON_WORD(p->code, file->object_type) != file->code_type - p->bias)
		return 0;
	if (file->instruction == PYTHON_INSTRUCTION_ADDRESS)
		instruction -= code + file->code_instructions;
	else if (file->instruction == PYTHON_INSTRUCTION_WORDS)
		instruction = (__u32)instruction * 2;
	else
		instruction = (__u32)instruction;
	/* One that has not begun stands before its first instruction. */
	if (instruction > PYTHON_PLACE_MASK)
		instruction = 0;
	__u64 word = PYTHON_FRAME | instruction;
	__u32 id = python_code_id(s, code);

	if (!id)
		p->lost = 1;
	word |= (__u64)id << PYTHON_ID_SHIFT;
	if (file->entry == PYTHON_ENTRY_EACH || (file->entry == PYTHON_ENTRY_FLAG && mark == 1))
		word |= PYTHON_ENTRY;
	/* By all that names the function: its id may be another at another time. */
	p->hash = mix(p->hash, word & ~((__u64)PYTHON_PLACE_MASK << PYTHON_ID_SHIFT));
	last = p->count;
	if (last >= MAX_FRAMES)
		return 0;
	p->frames[last] = word;
	p->count = last + 1;
	return 1;
}

/* Walks the current thread's Python frames: into frames, and into the stack's hash. */
__noinline int python_walk(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct python *p = &s->python;
	__u32 index = p->file;
	struct PythonFile *file = bpf_map_lookup_elem(&python_files, &index);

	p->count = 0;
	p->lost = 0;
	p->sent = 0;
	p->hash = s->unwind.hash;
	if (!file)
		return 0;
	/* A copy: each frame would look for it else. */
	p->layout = *file;
	if (!python_find_thread(GIVE_SCRATCH(s)) ||
	    !read_user_word(&p->frame, p->thread + file->thread_frame))
		return 0;
	if (file->kept_frame != 0xffff && !read_user_word(&p->frame, p->frame + file->kept_frame))
		return 0;
	/* Twice as many: between two functions' frames there may be one that is none. */
	for (int i = 0; i < 2 * MAX_FRAMES; i++) {
		if (!python_step(GIVE_SCRATCH(s)))
			break;
	}
	s->unwind.hash = p->hash;
	return 0;
}

#endif
