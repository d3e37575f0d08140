"""The end of a process that has used zenoh.

Threads of zenoh may still call into Python after a session is closed. One that does so while Python
shuts down is ended by it within native code, and the whole process aborts with a signal in place of
its exit code. So such a process does what Python does at its end, and then leaves at once.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress


def leave(code: int) -> None:
    """End this process with an exit code if it has loaded zenoh; return otherwise.

    Parameters
    ----------
    code : int
        The exit code.
    """
    if "zenoh" not in sys.modules:
        return
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it, or it is closed
            stream.flush()
    os._exit(code)
