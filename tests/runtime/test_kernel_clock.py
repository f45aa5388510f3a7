"""What the kernel tells of its clock, from results that it could give, and from the one it gives here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ordo.runtime.native import kernel_clock
from ordo.runtime.native.kernel_clock import STA_NANO, STA_UNSYNC, TIME_ERROR, ClockQuality, Timex, read_clock_quality

OK, INSERT_LEAP_SECOND = 0, 1


def telling(state: int, status: int, offset: int = 0) -> Callable[[Timex], int]:
    def call(timex: Timex) -> int:
        assert timex.modes == 0, "nothing is changed"
        timex.status, timex.offset, timex.maxerror, timex.esterror = status, offset, 1_500, 20
        return state

    return call


@pytest.mark.parametrize(
    ("state", "status", "is_synchronized"),
    [
        (OK, 0, True),
        (INSERT_LEAP_SECOND, 0x10, True),
        (TIME_ERROR, STA_UNSYNC, False),
        (TIME_ERROR, 0, False),
        (OK, STA_UNSYNC, False),
    ],
)
def test_either_the_state_or_the_status_says_that_nothing_keeps_the_clock(
    state: int, status: int, is_synchronized: bool
) -> None:
    assert read_clock_quality(telling(state, status)) == ClockQuality(is_synchronized, 0, 20_000, 1_500_000)


def test_the_offset_alone_is_in_nanoseconds_where_the_status_says_so() -> None:
    assert read_clock_quality(telling(OK, STA_NANO, -1_234)) == ClockQuality(True, -1_234, 20_000, 1_500_000)
    assert read_clock_quality(telling(OK, 0, -1_234)) == ClockQuality(True, -1_234_000, 20_000, 1_500_000)


def test_a_kernel_that_does_not_tell_is_no_error() -> None:
    assert read_clock_quality(telling(-1, 0)) is None


def test_the_kernel_here_tells_or_does_not() -> None:
    """Its bound is at most 16 s; an unsynchronized clock cannot be told from its bound alone."""
    told = read_clock_quality()
    if told is not None:
        assert 0 <= told.error_bound_ns <= 16_500_000_000
        assert 0 <= told.error_estimate_ns <= 16_500_000_000
    timex = Timex()
    assert (kernel_clock.adjtimex(timex) < 0) == (told is None)
