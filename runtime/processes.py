"""Other processes of this machine."""

from __future__ import annotations

import os
from pathlib import Path

STATE_FIELD = 0
THREADS_FIELD = 17
"""Indexes of the state and the thread count among the fields of /proc/PID/stat after the name (proc(5))."""


def is_process_alive(pid: int) -> bool:
    """Return whether a process with this id runs, of any user.

    One that has ended is not alive, although nobody has waited for it: in a container whose first process waits for
    nobody, a killed node stays in the table of processes for ever.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def is_process_held(pid: int) -> bool:
    """Return whether SIGSTOP holds every thread of a process, or the process has ended.

    The signal alone holds nothing: where the machine is busy the threads run on until one of them has taken it.
    """
    try:
        texts = [path.read_text(errors="replace") for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False  # a thread has ended just now
    return all(text.rpartition(") ")[2].split()[STATE_FIELD] in "TZX" for text in texts)


def _is_zombie(pid: int) -> bool:
    """Return whether a process has ended with all its threads. If only its first thread has ended, the others go on."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
    except OSError:
        return False
    return fields[STATE_FIELD] in "ZX" and int(fields[THREADS_FIELD]) <= 1
