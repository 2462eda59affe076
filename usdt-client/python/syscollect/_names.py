"""What the native part asks Python for."""

import _thread
import sys


def thread_name():
    """The calling thread's name, if `threading` knows one that says more than the program's name."""
    # Not `threading.current_thread()`: it would make an object for a thread of somebody else's, and
    # may take a lock that this thread holds.
    threading = sys.modules.get("threading")
    if threading is None:
        return None
    thread = threading._active.get(_thread.get_ident())
    if thread is None or isinstance(thread, threading._MainThread):
        return None
    name = thread.name
    return name if isinstance(name, str) else None
