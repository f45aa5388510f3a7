"""A program that waits until it is told to end is told so by a signal, whichever thread gets that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from ordo.runtime.end_signals import EndSignals

LONG_S = 3600.0


@pytest.fixture
def end() -> Iterator[EndSignals]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield EndSignals()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("timeout_s", [None, LONG_S])
def test_a_signal_that_another_thread_gets_ends_the_wait(
    end: EndSignals, number: signal.Signals, timeout_s: float | None
) -> None:
    waits = threading.Event()

    def be_signalled() -> None:
        waits.wait()
        signal.pthread_kill(threading.get_ident(), number)

    thread = threading.Thread(target=be_signalled)
    thread.start()
    waits.set()
    assert end.wait(timeout_s) and end.is_set
    thread.join()


def test_a_call_ends_the_wait_and_a_time_does_so_without_it(end: EndSignals) -> None:
    assert not end.wait(0.0) and not end.is_set
    end.set()
    assert end.wait() and end.wait(LONG_S)
