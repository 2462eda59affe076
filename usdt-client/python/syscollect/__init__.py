"""Zones, messages, plots and frames of Python programs, for the profiler syscollect.

    import syscollect
    from syscollect import zone

    with zone("load"):
        ...

    @zone
    def handle(request): ...

Nothing else is needed: `sudo syscollect` finds the program. While nobody records, a zone costs a
few dozen nanoseconds.
"""

from ._functions import stop_functions, trace_functions
from ._native import async_zone, enabled, frame, frame_image, loop_turns, loop_waits
from ._native import message, plot, thread_name, zone
from ._wrappers import trace_loop, trace_tasks

__all__ = [
    "async_zone",
    "enabled",
    "frame",
    "frame_image",
    "loop_turns",
    "loop_waits",
    "message",
    "plot",
    "stop_functions",
    "thread_name",
    "trace_functions",
    "trace_loop",
    "trace_tasks",
    "zone",
]
