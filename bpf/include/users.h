/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Shares of users: each has an entry, and those whose entries are one share it.
 */
#ifndef SYSCOLLECT_USERS_H
#define SYSCOLLECT_USERS_H

#include "kernel.h"

#define USER_SHARES 128

/* A user's entry. Above 65,535 lie ids that one user may have all of, as containers without root
 * do, in runs of 65,536: each such run has one or two entries, and not all that there are. */
static __always_inline __u32 user_share(__u32 uid)
{
	__u32 half = USER_SHARES / 2, run = uid >> 16;

	return run ? half + (run & (half - 1)) : uid & (half - 1);
}

#endif
