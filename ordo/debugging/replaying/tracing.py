"""A service whose next callbacks run in the debugger of Python."""

from __future__ import annotations

import bdb
import pdb
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ordo.cluster.container.record_orders import EXECUTING_CALLBACKS
from ordo.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ordo.debugging.replaying.debug_container import DebugContainer

Callback = Callable[..., object]


class Debugger(pdb.Pdb):
    """The debugger of Python. `was_left`: within a callback, which is not executed further then."""

    was_left = False

    def set_quit(self) -> None:
        self.was_left = True
        super().set_quit()


@contextmanager
def traced(container: DebugContainer, debugger: Debugger) -> Iterator[None]:
    """Have each callback of the service begin in the debugger. Raises ConfigurationError for a native service."""

    def wrap(callback: Callback) -> Callback:
        def call(*arguments: object) -> object:
            result: object = debugger.runcall(callback, *arguments)
            if debugger.was_left:  # which the debugger itself takes for an end in order
                raise bdb.BdbQuit
            return result

        return call

    with wrapped(container, dict.fromkeys(EXECUTING_CALLBACKS, wrap)):
        yield


@contextmanager
def wrapped(container: DebugContainer, wrappers: Mapping[str, Callable[[Callback], Callback]]) -> Iterator[None]:
    """Have callbacks of the service replaced by what a function makes of each."""
    service = container.service
    if not hasattr(service, "__dict__"):
        raise ConfigurationError(f"{type(service).__name__} is no class of Python with attributes of its own")
    for name, wrap in wrappers.items():
        setattr(service, name, wrap(getattr(service, name)))
    container.set_service(service)
    try:
        yield
    finally:
        for name in wrappers:
            service.__dict__.pop(name, None)
        if container.service is service:
            container.set_service(service)
