"""Runs in copies of a process: what took long to build is there again, untouched, for the next run."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import traceback
from collections.abc import Callable, Hashable
from typing import Any

from tests.fuzz.driver_doors import Finding
from tests.fuzz.engine import find_edges


def run_forked(action: Callable[[], Hashable]) -> Hashable:
    """What the action returns, in a copy of this process that ends with it; edges it took count here. Raises Finding
    when the action raised, or the copy died."""
    gc.freeze()  # the copy shares these pages as long as nobody looks through them
    reading, writing = os.pipe()
    child = ctypes.PyDLL(None).fork()  # unlike os.fork: what is open goes on, for the copy's world is its own
    if child == 0:
        os.close(reading)
        _end_with(action, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    if status or not said:
        raise Finding(f"the process died: exit status {os.waitstatus_to_exitcode(status)}")
    error, found, taken = pickle.loads(said)
    edges = find_edges()
    if edges is not None:
        ctypes.memmove(edges, taken, len(taken))
    if error:
        raise Finding(error)
    return found  # type: ignore[no-any-return]


def _end_with(action: Callable[[], Hashable], writing: int) -> None:
    """Does not return, whatever happens: nothing that the parent has open or planned may be done twice."""
    said: tuple[str, Any, bytes] = ("", None, b"")
    try:
        said = ("", action(), bytes(find_edges() or b""))
    except BaseException:
        said = (traceback.format_exc(), None, b"")
    finally:
        with os.fdopen(writing, "wb") as answer:
            pickle.dump(said, answer)
        os._exit(0)
