/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * x86-64: registers, addresses, the order of memory.
 */
#ifndef SYSCOLLECT_ARCH_MACHINE_H
#define SYSCOLLECT_ARCH_MACHINE_H

/* All accesses below are relocated, as those of kernel.h. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long bp;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
};

/* arch/x86/include/asm/mmu.h */
typedef struct {
	void *vdso;
} mm_context_t;

struct thread_struct {
	unsigned long fsbase;
};

#pragma clang attribute pop

/* The member of task_struct that is the number which a C library gives its thread. */
#define THREAD_NUMBER thread.fsbase

/*
 * The context of a perf_event program: the registers as user space knows them
 * (arch/x86/include/uapi/asm/ptrace.h), never relocated.
 */
struct sample_context {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	__u64 orig_ax, ip, cs, flags, sp, ss;
};

/* Words of it, and those of the stack pointer, the frame pointer and the instruction. */
#define REGISTERS 21
#define REGISTER_SP 19
#define REGISTER_BP 4
#define REGISTER_IP 16
_Static_assert(sizeof(struct sample_context) == REGISTERS * 8, "words of sample_context");
_Static_assert(__builtin_offsetof(struct sample_context, sp) == REGISTER_SP * 8,
	       "the stack pointer's word");
_Static_assert(__builtin_offsetof(struct sample_context, bp) == REGISTER_BP * 8 &&
		       __builtin_offsetof(struct sample_context, ip) == REGISTER_IP * 8,
	       "the frame pointer's word and the instruction's");

/* User mode is ring 3: the low bits of the code segment. */
#define IN_USER_MODE(registers) ((registers)->cs & 3)

/*
 * Whether the words from the `i`th on, which lie at `at`, are the registers that an interrupt saved
 * which came while the kernel was at work: the segments of code and stack (__KERNEL_CS and
 * __KERNEL_DS of arch/x86/include/asm/segment.h), and between them the stack pointer, which led to
 * just behind them.
 */
#define REGISTER_CS 17
#define REGISTER_SS 20
#define ARE_REGISTERS_IN_KERNEL(words, i, at)                      \
	(((words)[(i) + REGISTER_CS] & 0xffff) == 0x10 &&          \
	 ((words)[(i) + REGISTER_SS] & 0xffff) == 0x18 &&          \
	 (words)[(i) + REGISTER_SP] - ((at) + 8 * ((i) + REGISTERS)) < 64)
/* Words in which they lie: behind what two functions keep on the stack. */
#define INTERRUPTED_WORDS 38

/* The member of both structures that is the number of the system call by which a task entered the
 * kernel; -1 where it did not (arch/x86/entry/entry_64.S since 5.8). */
#define SYSTEM_CALL orig_ax

/* What a probe puts in place of an instruction's first byte, one byte long (int3), and how long
 * instructions are at most. */
#define BREAKPOINT 0xcc
#define INSTRUCTION_BYTES 15

/* Kernel and module code lies above this. */
#define LOWEST_KERNEL_CODE 0xffffffff80000000ULL
/* Bytes of a kernel stack (arch/x86/include/asm/page_64_types.h). */
#define THREAD_SIZE 16384
/* Bits of a program's addresses. */
#define USER_ADDRESS_BITS 47

/*
 * What is stored is seen in that order, and what is loaded was there in that
 * order: it is enough that the compiler keeps it.
 */
#define order_stores() asm volatile("" ::: "memory")
#define order_loads() asm volatile("" ::: "memory")
/* A word that another CPU writes, before anything that depends on it is stored. */
#define load_before_stores(word) (word)

#endif
