/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Frames of which the rows are known, one after another: a part of unwind.h, with
 * whose state it works.
 *
 * Nearly all rows lead to the caller by rsp or rbp and an offset. As long as such
 * rows are in the cache and the window shows what is read, a walk calls nothing
 * and keeps little in memory, which makes a frame several times cheaper than a
 * step. The first frame of another kind is left to unwind_step, as it is.
 *
 * Most functions save rbp, and few callers are found by it. So the word counts as
 * one that the walk has read only where it is used.
 */
#ifndef SYSCOLLECT_KNOWN_FRAMES_H
#define SYSCOLLECT_KNOWN_FRAMES_H

/* Of a row, as a number of 32 bits: that it leads to the caller by rsp or rbp and an offset, and
 * that rbp is at the CFA and an offset; it has no mark. */
#define ROW_BY_RSP (CFA_RSP << 16)
#define ROW_BY_RBP (CFA_RBP << 16)
#define ROW_SAVES_RBP (FRAME_POINTER_AT_CFA << 24)

/* Goes on to callers, from the frame in the scratch, up to one that takes a step. */
__noinline int unwind_known_frames(SCRATCH)
{
	TAKE_SCRATCH(0);
	struct unwind *u = &s->unwind;
	struct known_rows *rows = known_rows_of(u->context);
	__u64 count = s->count;

	if (!rows || stands(u))
		return 0;
	__u64 ip = u->ip, sp = u->sp, bp = u->bp, hash = u->hash, saved_at = 0;

	while (count < MAX_FRAMES) {
		__u64 address = ip - 1;
		struct known_row *known = known_row_at(rows, u->space, address);

		if (known->address != address || known->space != u->space ||
		    known->generation != u->generation)
			break;
		__u64 row = known->row, cfa = sp;
		__u32 way = row, saves = way & ROW_SAVES_RBP;

		way &= ~ROW_SAVES_RBP;
		if (way == ROW_BY_RBP) {
			if (saved_at) {
				keep_word(u, saved_at, bp);
				saved_at = 0;
			}
			cfa = bp;
		} else if (way != ROW_BY_RSP) {
			break;
		}
		cfa += ((__s64)(row << 16) >> 48) * 8;
		if (cfa <= sp || cfa & 7)
			break;
		__u64 offset = cfa - 8 - s->window_start;

		if (offset >= s->window_bytes)
			break;
		__u64 returns = window_word(s, offset);

		if (!returns)
			break;
		if (saves) {
			__u64 saved = cfa + ((__s64)row >> 48) * 8;

			offset = saved - s->window_start;
			if (offset >= s->window_bytes)
				break;
			bp = window_word(s, offset);
			saved_at = saved;
		}
		keep_word(u, cfa - 8, returns);
		hash = mix(hash, ip);
		s->frames[count] = returns;
		count++;
		ip = returns;
		sp = cfa;
		u->reached = FRAME_CALLED;
	}
	if (saved_at)
		keep_word(u, saved_at, bp);
	u->ip = ip;
	u->sp = sp;
	u->bp = bp;
	u->hash = hash;
	s->count = count;
	return 0;
}

#endif
