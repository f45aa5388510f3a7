"""Checks of a service class when it is loaded.

A misspelt callback is refused then, and not at the first message.
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from ordo.service_api.native import NativeClusteredService
from ordo.service_api.service import ClusteredService

CALLBACKS = tuple(name for name in vars(ClusteredService) if name.startswith("on_"))
ALIKE_MIN = 0.75
HANDLES = "__ordo_handles__"
"""Marks methods of a TypedService that take a message."""
HANDLERS = "__ordo_handlers__"
"""Where a TypedService has these methods, by the class that each takes."""
_FREE = "other methods of its own must not begin with on_; _on_... may"


def find_fault(service: type[Any]) -> str:
    """Return what keeps a class from being a service; '' if nothing does.

    The class is derived from ClusteredService or NativeClusteredService.
    """
    if fault := _find_unknown(service):
        return fault
    if issubclass(service, NativeClusteredService):
        return ""
    if not getattr(service, HANDLERS, True):
        return f"{service.__name__} has no method that takes a message: mark one with @ordo.handles"
    takes_one = service.on_session_message is not ClusteredService.on_session_message
    takes_many = service.on_session_messages is not ClusteredService.on_session_messages
    if not takes_one and not takes_many:
        return f"{service.__name__} has no on_session_message: it would take no message"
    return next((fault for name in CALLBACKS if (fault := _find_misfit(service, name))), "")


def _find_unknown(service: type[Any]) -> str:
    for name in dir(service):
        if not name.startswith("on_") or name in CALLBACKS:
            continue
        found = getattr(service, name, None)  # what only instances have is no method
        if not callable(found) or getattr(found, HANDLES, False):
            continue
        alike = difflib.get_close_matches(name, CALLBACKS, 1, ALIKE_MIN)
        hint = f"is {alike[0]} meant?" if alike else f"a service has {', '.join(CALLBACKS)};"
        return f"{service.__name__}.{name} is no callback of a service: {hint} {_FREE}"
    return ""


def _find_misfit(service: type[Any], name: str) -> str:
    """Return what is wrong with a callback that could not be called, or that returns a str; '' if nothing is."""
    own, theirs = getattr(service, name), getattr(ClusteredService, name)
    if own is theirs or not inspect.isfunction(own):
        return ""
    if inspect.iscoroutinefunction(own) or inspect.isgeneratorfunction(own) or inspect.isasyncgenfunction(own):
        return f"{service.__name__}.{name} is async or yields: a callback returns its answer, and never waits"
    found, wanted = inspect.signature(own), inspect.signature(theirs)
    try:
        found.bind(*wanted.parameters)
    except TypeError:
        return f"{service.__name__}.{name}{found} must take ({', '.join(wanted.parameters)})"
    if found.return_annotation in (str, "str"):
        return f"{service.__name__}.{name} returns str, must return bytes: encode it, as text.encode()"
    return ""
