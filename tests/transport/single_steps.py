"""A child process that is run one instruction at a time, and killed behind one of them (ptrace(2))."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_TRACEME, _SINGLESTEP = 0, 9
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, pid: int) -> None:
    if _libc.ptrace(request, pid, None, None) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")


def killed_after_change(work: Callable[[], object], look: Callable[[], bytes], count: int) -> bool:
    """Forks a process that does the work, and kills it behind the instruction that changed what `look` sees for the
    `count`-th time; behind its last instruction when there are fewer changes: False. 0: before its first one."""
    pid = ctypes.PyDLL(None).fork()  # unlike os.fork: what is open may be used, for the parent only looks on
    if pid == 0:
        try:
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
        finally:
            os._exit(0)
    seen, changes = look(), 0
    _, status = os.waitpid(pid, 0)
    while os.WIFSTOPPED(status) and changes < count:
        _ptrace(_SINGLESTEP, pid)
        _, status = os.waitpid(pid, 0)
        found = look()
        if found != seen:
            seen, changes = found, changes + 1
    if not os.WIFSTOPPED(status):
        return False
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True
