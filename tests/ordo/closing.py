"""Closes, or forks, one of the objects of tests/ordo/closables.py while it is in use, and prints what came of it.

python -m tests.ordo.closing HOW CASE ENDPOINT [DELAY_MS ...]

HOW: "after": used after its end; "thread": another thread closes it DELAY_MS after its use has begun, and so the next
one for each further DELAY_MS; "signal": the handler of SIGTERM does; "fork": a child uses it, closes it, and ends as
programs end, with all that is done at exit.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

from ordo.runtime.errors import ForkedError, OrdoError
from tests.ordo.closables import CASES, Case
from tests.patience import patient

ALARM_S = round(patient(30))
"""After so long the program ends by SIGALRM: it hangs."""
CHILD_STATUS = 7


def outcome(use: object) -> str:
    """How a use ended: "ended", or the error and its message."""
    assert callable(use)
    try:
        use()
    except StopIteration:
        return "ended"
    except OrdoError as error:
        return f"{type(error).__name__}: {error.message}"
    return "ended"


def close_after(case: Case, delay_s: float) -> None:
    def close() -> None:
        time.sleep(delay_s)
        case.close()

    thread = threading.Thread(target=close)
    thread.start()
    print(outcome(case.use))
    thread.join()


def close_by_signal(case: Case, delay_s: float) -> None:
    def on_signal(number: int, frame: FrameType | None) -> None:
        case.close()

    signal.signal(signal.SIGTERM, on_signal)

    def end() -> None:
        time.sleep(delay_s)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=end)
    thread.start()
    print(outcome(case.use))
    thread.join()


def use_after_end(case: Case) -> None:
    case.use_once()
    case.close()
    case.close()
    print(outcome(case.use_once))
    print(outcome(case.use))


def fork_while_open(case: Case) -> None:
    """The child ends by an exception that leaves through everything, as a worker does that is told to end."""
    case.use_once()
    child = os.fork()
    if child == 0:
        forked = outcome(case.use_once), outcome(case.use)
        case.close()
        assert all(one.startswith(ForkedError.__name__) for one in forked), forked
        sys.exit(CHILD_STATUS)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == CHILD_STATUS, status
    for _ in range(3):
        case.use_once()
    case.close()
    print("ended")


def main() -> None:
    how, name, endpoint, *delays_ms = sys.argv[1:]
    signal.alarm(ALARM_S)
    if how in ("thread", "signal"):
        close = close_after if how == "thread" else close_by_signal
        for delay_ms in delays_ms:
            signal.alarm(ALARM_S)
            close(CASES[name](endpoint), float(delay_ms) / 1e3)
    elif how == "after":
        use_after_end(CASES[name](endpoint))
    else:
        fork_while_open(CASES[name](endpoint))


if __name__ == "__main__":
    main()
