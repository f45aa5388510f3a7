"""The methods of both clients, made from the functions of `archive.client.control_requests`.

Each has the function's arguments and docstring, and returns what its Call stands for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, get_args

from ordo.archive.client.control_requests import Call

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")
MethodT = TypeVar("MethodT", bound=Callable[..., Any])


class WaitingClient(Protocol):
    """What the methods of a plain client need of it."""

    def _run(self, call: Call[ResultT]) -> ResultT: ...


class AwaitingClient(Protocol):
    """What the methods of an asyncio client need of it."""

    async def _run(self, call: Call[ResultT]) -> ResultT: ...


def waiting(
    make: Callable[Arguments, Call[ResultT]],
) -> Callable[Concatenate[WaitingClient, Arguments], ResultT]:
    """Return the method of a plain client that makes a request and waits for its reply."""

    def method(self: WaitingClient, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> ResultT:
        return self._run(make(*args, **kwargs))

    return _dressed(method, make)


def awaiting(
    make: Callable[Arguments, Call[ResultT]],
) -> Callable[Concatenate[AwaitingClient, Arguments], Coroutine[Any, Any, ResultT]]:
    """Return the method of an asyncio client that makes a request and awaits its reply."""

    async def method(self: AwaitingClient, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> ResultT:
        return await self._run(make(*args, **kwargs))

    return _dressed(method, make)


def _dressed(method: MethodT, make: Callable[..., Call[Any]]) -> MethodT:
    """Give a method the name, docstring and arguments of its function, for help, editors and the reference."""
    signature = inspect.signature(make, eval_str=True)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    (result,) = get_args(signature.return_annotation)
    update_wrapper(method, make)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own, *signature.parameters.values()], return_annotation=result
    )
    return method
