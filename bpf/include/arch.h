/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What depends on the CPU's architecture. Another one is a folder beside
 * arch/x86_64 with the same three headers: machine.h (registers as the kernel
 * keeps them, how it counts interrupts, addresses, which order of memory has to
 * be asked for), code.h (what a walk reads of instructions and of the frames of
 * signals) and jvm_frames.h (frames of compiled Java); the orders of registers in bpf/records/src/arch; and
 * __TARGET_ARCH_... of `cargo xtask bpf`, for a second set of objects.
 */
#ifndef SYSCOLLECT_ARCH_H
#define SYSCOLLECT_ARCH_H

#if defined(__TARGET_ARCH_x86)
#include "arch/x86_64/machine.h"
/* Included by unwind.h, behind what it needs. */
#define ARCH_CODE "arch/x86_64/code.h"
#define ARCH_JVM_FRAMES "arch/x86_64/jvm_frames.h"
#else
#error "no folder in bpf/include/arch is of this CPU: see bpf/include/arch.h"
#endif

#endif
