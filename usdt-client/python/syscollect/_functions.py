"""All functions as zones, on request."""

import os
import sys
import threading

from ._native import forget_functions, function_begins, function_ends, profile

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_tool = None
_profiles = False


def trace_functions(under=None):
    """Makes a zone of every call of a Python function from now on, in all threads that begin later
    and, from Python 3.12 on, in those that run already.

    `under`: only functions of files whose names begin so; those of other files then cost nothing
    (from Python 3.12 on).
    """
    if under is not None:
        if isinstance(under, (str, bytes)):
            raise TypeError("`under` is a list of paths")
        under = tuple(os.path.abspath(path) for path in map(os.fspath, under))
    stop_functions()
    if hasattr(sys, "monitoring"):
        _monitor(under)
    else:
        _set_profile(under)


def stop_functions():
    """No zones of functions from now on."""
    global _tool, _profiles
    if _tool is not None:
        sys.monitoring.set_events(_tool, 0)
        for event in _events():
            sys.monitoring.register_callback(_tool, event, None)
        sys.monitoring.free_tool_id(_tool)
        _tool = None
    if _profiles:
        threading.setprofile(None)
        sys.setprofile(None)
        _profiles = False
    forget_functions()


def _is_traced(code, under):
    file = code.co_filename
    return not file.startswith(_OWN) and (under is None or file.startswith(under))


def _events():
    events = sys.monitoring.events
    begins = (events.PY_START, events.PY_RESUME, events.PY_THROW)
    ends = (events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND)
    return {**dict.fromkeys(begins, function_begins), **dict.fromkeys(ends, function_ends)}


def _monitor(under):
    global _tool
    monitoring = sys.monitoring
    free = (tool for tool in (monitoring.PROFILER_ID, 3, 4) if monitoring.get_tool(tool) is None)
    tool = next(free, None)
    if tool is None:
        raise RuntimeError("other tools have taken all places in sys.monitoring")
    monitoring.use_tool_id(tool, "syscollect")
    _tool = tool
    # What an earlier call has switched off for single functions counts again.
    monitoring.restart_events()
    local = {monitoring.events.PY_START, monitoring.events.PY_RESUME,
             monitoring.events.PY_RETURN, monitoring.events.PY_YIELD}

    for event, callback in _events().items():
        monitoring.register_callback(tool, event, _chosen(callback, under, event in local))
    events = 0
    for event in _events():
        events |= event
    monitoring.set_events(tool, events)


def _chosen(callback, under, may_disable):
    disable = sys.monitoring.DISABLE if may_disable else None

    def call(code, offset, *value):
        if _is_traced(code, under):
            return callback(code, offset, *value)
        return disable

    return callback if under is None else call


def _set_profile(under):
    global _profiles

    def call(frame, event, argument):
        if _is_traced(frame.f_code, under):
            profile(frame, event, argument)

    chosen = profile if under is None else call
    threading.setprofile(chosen)
    sys.setprofile(chosen)
    _profiles = True
