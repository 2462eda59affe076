"""What a with-block costs: `python -m syscollect.cost`.

In one run: an empty turn of a loop, an empty with-block, and with-blocks with zones while nobody
records and while a thread of this process reads what is recorded. Medians, nanoseconds a turn.
"""

import contextlib
import statistics
import time

from syscollect import _native, zone

TURNS = 5_000
ROUNDS = 101
_KEPT = zone("kept")


def empty(turns):
    for _ in turns:
        pass


def with_null(turns):
    null = contextlib.nullcontext()
    for _ in turns:
        with null:
            pass


def with_zone(turns):
    for _ in turns:
        with zone("cost"):
            pass


def with_kept_zone(turns):
    for _ in turns:
        with _KEPT:
            pass


def with_value(turns):
    for turn in turns:
        with zone("cost") as one:
            one.value(turn)


WORK = (empty, with_null, with_zone, with_kept_zone, with_value)


def measured():
    """Nanoseconds a turn of each, in turns, so that what else runs meets them alike."""
    times = {work: [] for work in WORK}
    for _ in range(ROUNDS):
        for work in WORK:
            turns = range(TURNS)
            start = time.perf_counter_ns()
            work(turns)
            times[work].append((time.perf_counter_ns() - start) / TURNS)
            # Now the reader empties the ring.
            time.sleep(0.0005)
    return {work: statistics.median(some) for work, some in times.items()}


def main():
    _native.hide()
    off = measured()
    _native.raise_()
    with zone("first"):
        pass
    _native.read_beside()
    on = measured()
    lost = _native.stop_reading()
    _native.lower()

    turn, block = off[empty], off[with_null]
    print(f"medians of {ROUNDS} rounds of {TURNS} turns, ns a turn")
    print(f"empty turn of the loop {turn:.1f}, with an empty with-block (nullcontext) {block:.1f}")
    print("                                      above an empty turn   above an empty with-block")
    print("                                        off        on         off        on")
    for name, work in (
        ('with zone("cost"):', with_zone),
        ("with KEPT:", with_kept_zone),
        ('with zone("cost") as z: z.value(1)', with_value),
    ):
        figures = (off[work] - turn, on[work] - turn, off[work] - block, on[work] - block)
        print(f"{name:<36}" + "".join(f"{figure:10.1f}" for figure in figures))
    print(f"lost while recording: {lost}")


if __name__ == "__main__":
    main()
