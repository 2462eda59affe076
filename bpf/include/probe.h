/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probes: where a hit's arguments are, and the working memory of a hit.
 *
 * A uprobe's program runs in task context and may be preempted by another task
 * whose program hits a probe on the same CPU. So nothing here is "one per CPU":
 * a hit claims one of a few slots by an atomic exchange, counts by atomic
 * additions, and hands its record to a ring buffer in one call. The program
 * never changes its CPU meanwhile.
 */
#ifndef SYSCOLLECT_PROBE_H
#define SYSCOLLECT_PROBE_H

#include "clock.h"
#include "recorded.h"

#define PROBE_ARGUMENTS 12
/* As many or more, so that a mask bounds an index. */
#define PROBE_WORDS 16
#define PROBE_TEXTS 8
/* With the NUL that ends it. */
#define PROBE_TEXT_BYTES 256
#define PROBE_SCRATCH_SLOTS 4
#ifdef WALK_SLOTS
_Static_assert(WALK_SLOTS == PROBE_SCRATCH_SLOTS, "each hit may walk");
#endif
/* The largest record is 40 + 12 * 8 + 8 * 264 bytes. */
#define PROBE_RECORD_BYTES 4096

/* Index of a register in struct sample_context (arch.h); that of none holds 0. */
#define NO_REGISTER 31

enum {
	ARGUMENT_CONSTANT = 0,
	ARGUMENT_REGISTER = 1,
	ARGUMENT_MEMORY = 2,
};

enum {
	TEXT_NEVER = 0,
	TEXT_ALWAYS = 1,
	/* A text if what the word points to looks like one. */
	TEXT_LIKELY = 2,
};

/* value + base + (index << scale), as a number, a register or an address. */
struct probe_argument {
	__s64 value;
	__u8 kind;
	__u8 base;
	__u8 index;
	__u8 scale;
	/* Bits of a register below the argument: 8 for ah. */
	__u8 skip;
	__u8 bytes;
	__u8 is_signed;
	__u8 text;
};
_Static_assert(sizeof(struct probe_argument) == 16, "size of probe_argument");

struct probe_program {
	__u32 arguments;
	__u32 reserved;
	struct probe_argument argument[PROBE_ARGUMENTS];
};
_Static_assert(sizeof(struct probe_program) == 200, "size of probe_program");

/* By the upper half of a cookie, less 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct probe_program));
	__uint(max_entries, 1);
} probe_programs SEC(".maps");

/* Whether the kernel hands over cookies (5.15). Before, each place has a small
 * program that leaves its cookie here and goes on to the one that reads it.
 * Nothing comes between: such kernels do not preempt programs at user probes,
 * and interrupts hit none. */
const volatile bool COOKIES = true;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 8);
	__uint(max_entries, 1);
} given_cookie SEC(".maps");

static __always_inline __u64 cookie_of(struct sample_context *context)
{
	__u32 zero = 0;

	if (COOKIES)
		return bpf_get_attach_cookie(context);
	const __u64 *given = bpf_map_lookup_elem(&given_cookie, &zero);

	return given ? *given : 0;
}

/* What a CPU counted; the collector reads it, and sets `stopped`. */
struct probe_cpu {
	__u64 written;
	__u64 full;
	__u64 nested;
	__u64 unclocked;
	__u64 announced;
	__u64 announcements_lost;
	__u64 stopped;
	/* Stacks, and what functions in them are called. */
	__u64 stacks_full;
};
_Static_assert(sizeof(struct probe_cpu) == 64, "size of probe_cpu");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct probe_cpu));
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
} probe_cpus SEC(".maps");

/* A ring buffer for each CPU that is recorded; the collector polls them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1);
} probe_rings SEC(".maps");

/* Rare, and somebody waits for them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} announcements SEC(".maps");

/* What a hit works with. All of it is here, and little on the stack: from 6.13
 * on the kernel gives a function that needs 64 bytes of stack or more a stack
 * per CPU (PRIV_STACK_ADAPTIVE). Programs on uprobes are not kept from running
 * on a CPU while another one is preempted there, so the two would share it. A
 * test of the collector looks at the functions' stacks. */
struct probe_scratch {
	__u64 busy;
	/* Bytes of the record so far. Here and not in a register, so that the
	 * verifier knows nothing of it and need not follow each path. */
	__u64 end;
	__u64 unreadable;
	__u64 texts;
	/* A word of the kernel's that was read. */
	__u64 word;
	__u64 registers[NO_REGISTER + 1];
	union {
		struct ProbeRecord hit;
		struct RingRecord announcement;
		__u8 bytes[PROBE_RECORD_BYTES];
	};
	__u8 slack[PROBE_TEXT_BYTES + 16];
#ifdef WALK_SLOTS
	/* Which slot it is: the context of its walks. */
	__u64 slot;
	/* The stack's id, and the last one that was given out. */
	__u64 stack, last_stack;
	/* For the walk. */
	__u64 ticks, cookie;
#endif
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct probe_scratch));
	__uint(max_entries, PROBE_SCRATCH_SLOTS);
} probe_scratches SEC(".maps");

#define count_one(counter) __sync_fetch_and_add(&(counter), 1)

/* Whether the slot was free; it is this hit's now. */
static __always_inline bool scratch_take(struct probe_scratch *s)
{
	if (COOKIES)
		return !__sync_lock_test_and_set(&s->busy, 1);
	/* Kernels that are too old for cookies are for exchanges (5.12), too; the
	 * loader takes them out. Nothing preempts a hit there. */
	if (*(volatile __u64 *)&s->busy)
		return false;
	*(volatile __u64 *)&s->busy = 1;
	return true;
}

/* A slot that no other hit on this CPU uses, with the registers in it; NULL if
 * all are taken. */
static __always_inline struct probe_scratch *scratch_claim(struct sample_context *context)
{
	struct probe_scratch *s = 0;

	for (__u32 i = 0; i < PROBE_SCRATCH_SLOTS; i++) {
		__u32 slot = i;

		s = bpf_map_lookup_elem(&probe_scratches, &slot);
		if (!s)
			return 0;
		if (scratch_take(s)) {
#ifdef WALK_SLOTS
			s->slot = i;
#endif
			goto claimed;
		}
	}
	return 0;
claimed:
	bpf_probe_read_kernel(s->registers, REGISTERS * 8, context);
	s->registers[NO_REGISTER] = 0;
	s->unreadable = 0;
	s->texts = 0;
	return s;
}

static __always_inline void scratch_release(struct probe_scratch *s)
{
	compiler_barrier();
	*(volatile __u64 *)&s->busy = 0;
}

/* The argument's value; sets its bit in `unreadable` if it is in memory that
 * cannot be read. */
static __always_inline __u64 read_argument(struct probe_scratch *s, const struct probe_argument *a,
					   __u32 number)
{
	__u64 value = a->value;
	__u64 spare;

	if (a->kind == ARGUMENT_CONSTANT)
		return value;
	value += s->registers[a->base & 31] + (s->registers[a->index & 31] << (a->scale & 3));
	if (a->kind == ARGUMENT_MEMORY) {
		__u64 address = value;
		__u64 bytes = a->bytes;

		value = 0;
		if (bytes < 1 || bytes > 8 || bpf_probe_read_user(&value, bytes, (void *)address)) {
			s->unreadable |= 1u << number;
			return 0;
		}
	}
	value >>= a->skip & 63;
	spare = (64 - a->bytes * 8) & 63;
	value <<= spare;
	return a->is_signed ? (__u64)((__s64)value >> spare) : value >> spare;
}

#define EACH_BYTE(byte) (0x0101010101010101ULL * (byte))

/* Whether the first 8 bytes, or as many as there are, can be printed. */
static __always_inline bool looks_like_text(const __u8 *text, __u64 bytes)
{
	__u64 word;

	if (bytes < 2)
		return false;
	__builtin_memcpy(&word, text, 8);
	if (bytes < 8) {
		__u64 unused = ~0ULL << (bytes * 8 & 63);

		word = (word & ~unused) | (EACH_BYTE(0x20) & unused);
	}
	/* 0x80 and above, below 0x20, 0x7f. */
	return !((word | ((word - EACH_BYTE(0x20)) & ~word) | (word + EACH_BYTE(0x01))) & EACH_BYTE(0x80));
}

/* Appends the text at this address; false if there is none. */
static __always_inline bool append_text(struct probe_scratch *s, __u64 address, bool certain)
{
	__u64 end = s->end & (PROBE_RECORD_BYTES - 1);

	barrier_var(end);
	__u8 *to = s->bytes + end;
	long length = bpf_probe_read_user_str(to + 4, PROBE_TEXT_BYTES, (void *)address);

	if (length <= 0)
		return false;
	__u64 bytes = (length - 1) & (PROBE_TEXT_BYTES - 1);

	barrier_var(bytes);
	if (!certain && !looks_like_text(to + 4, bytes))
		return false;
	*(__u32 *)to = bytes;
	/* The padding; nothing of older records. */
	__u64 zero = 0;
	__builtin_memcpy(to + 4 + bytes, &zero, 8);
	s->end = end + ((4 + bytes + 7) & ~7ULL);
	return true;
}

/* Where a word of the hit is, behind the record's head. */
static __always_inline __u64 *hit_word(struct probe_scratch *s, __u32 number)
{
	return (__u64 *)(s->bytes + sizeof(struct ProbeRecord)) + (number & (PROBE_WORDS - 1));
}

/* Reads the words of the hit. */
static __noinline int read_words(struct probe_scratch *s, const struct probe_program *program)
{
	__u32 count = program->arguments;

	for (__u32 i = 0; i < PROBE_ARGUMENTS; i++) {
		if (i >= count)
			break;
		*hit_word(s, i) = read_argument(s, &program->argument[i], i);
	}
	return 0;
}

/* Reads the text that a word leads to, behind all words and earlier texts. */
static __noinline int read_text(struct probe_scratch *s, const struct probe_argument *a,
				__u32 number)
{
	__u8 text = a->text;
	__u64 address = *hit_word(s, number);
	bool certain = text == TEXT_ALWAYS;

	if (text == TEXT_NEVER || s->unreadable & 1u << number)
		return 0;
	if (!certain && (address < 4096 || address >> USER_ADDRESS_BITS))
		return 0;
	if (append_text(s, address, certain))
		s->texts |= 1u << number;
	else if (certain)
		s->unreadable |= 1u << number;
	return 0;
}

#endif
