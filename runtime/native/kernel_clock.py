"""How good the machine's clock is, as chrony, ntpd or a PTP daemon told the kernel (adjtimex(2), read only)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

from ordo.runtime.native.time_units import MICROSECOND_NS

TIME_ERROR = 5
"""What the call returns while the clock is not synchronized."""
STA_UNSYNC = 0x0040
STA_NANO = 0x2000


class Timex(ctypes.Structure):
    """The beginning of `struct timex`, and room for all of it. With `modes` 0 the call changes nothing."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),  # nanoseconds with STA_NANO, else microseconds
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),  # microseconds, always
        ("esterror", ctypes.c_long),  # microseconds, always
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 448),
    )


class ClockQuality(NamedTuple):
    """What the kernel tells of its clock.

    `offset_ns` is what it still corrects by slewing. `error_estimate_ns` is what its daemon told last.
    `error_bound_ns` also began with the daemon's word, and the kernel adds 500 us to it each second, up to 16 s.
    """

    is_synchronized: bool
    offset_ns: int
    error_estimate_ns: int
    error_bound_ns: int


def adjtimex(timex: Timex) -> int:
    """Make the system call, which returns the clock's state, or -1."""
    return int(ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)))


def read_clock_quality(call: Callable[[Timex], int] = adjtimex) -> ClockQuality | None:
    """Return what the kernel tells of its clock, or None where it does not, as in containers that forbid the call."""
    timex = Timex()
    state = call(timex)
    if state < 0:
        return None
    return ClockQuality(
        is_synchronized=state != TIME_ERROR and not timex.status & STA_UNSYNC,
        offset_ns=timex.offset * (1 if timex.status & STA_NANO else MICROSECOND_NS),
        error_estimate_ns=timex.esterror * MICROSECOND_NS,
        error_bound_ns=timex.maxerror * MICROSECOND_NS,
    )
