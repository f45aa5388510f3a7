"""A service whose messages have types: each goes to the method that takes its class."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import ClassVar, TypeAlias, TypeVar, get_type_hints

from ordo.runtime.errors import MessageError, Reject
from ordo.service_api.callbacks import HANDLES
from ordo.service_api.cluster import ClientSession
from ordo.service_api.messages.dispatch import Dispatch, dispatch, names_of
from ordo.service_api.messages.message import Schema, is_message
from ordo.service_api.messages.request import Request, alternatives_of
from ordo.service_api.native import Header
from ordo.service_api.service import ClusteredService

Handlers: TypeAlias = dict[type, tuple[Callable[..., object], bool, tuple[type, ...]]]
F = TypeVar("F", bound=Callable[..., object])
PARAMETERS = (3, 4)
"""How many parameters a method has that takes a message: self, the session, the message, and the header or not."""
MESSAGE_PARAMETER = 2


def handles(method: F) -> F:
    """Have a method of a TypedService called with each message of the class that its second argument is annotated with.

        @ordo.handles
        def place(self, session: ordo.ClientSession | None, order: NewOrder) -> Accepted: ...

    A union of classes has it called with messages of each of them. An override must be marked, too. One that takes a
    Request[Ack] must be annotated to return Ack: MessageError says so when the class is made. One with a third argument
    is given the header, which has the message's position in the log and its number (`header.sequence`).
    """
    setattr(method, HANDLES, True)
    return method


class TypedService(ClusteredService):
    """A deterministic service that takes and gives messages with types.

    Mark methods with `@ordo.handles`, in the class or in any that it inherits from. What one returns answers the
    client: a message, or bytes; None answers nothing, as in `on_session_message`. `raise Reject("why")` refuses the
    message. The time is `cluster.time`.

    A message that no method takes, or that cannot be read, is refused with one line that says which are known; it
    changes nothing. Override `untyped_message` for a service that takes other bytes, too.
    """

    schema: ClassVar[Schema]
    """The messages that it takes, and those that its methods are annotated to answer."""
    __ordo_handlers__: ClassVar[Handlers] = {}
    """By the class of the message: the method, whether it takes the header, and what must answer; empty: anything."""
    __ordo_dispatch__: ClassVar[Dispatch]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        _check_hides_no_handler(cls)
        inherited = cls.__ordo_handlers__
        handlers: Handlers = {}
        answers: list[type] = []
        for base in reversed(cls.__mro__):
            if not issubclass(TypedService, base):
                handlers |= _handlers_of(base, answers)
        cls.__ordo_handlers__ = handlers
        if handlers != inherited or any(getattr(method, HANDLES, False) for method in vars(cls).values()):
            typed = [base for base in cls.__bases__ if issubclass(base, TypedService) and base.__ordo_handlers__]
            before = [one for base in typed for one in base.schema.messages]
            cls.schema = Schema(cls.__name__, *dict.fromkeys([*before, *handlers, *answers]))
        if isinstance(getattr(cls, "schema", None), Schema):
            cls.__ordo_dispatch__ = Dispatch(cls.schema.message_set, handlers)

    on_session_message = dispatch
    """Decodes a message, and calls the method that takes it."""

    def untyped_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header, error: MessageError
    ) -> bytes | None:
        """Execute bytes that are no message that the service knows. Unless overridden, they are refused."""
        raise Reject(error.message) from error


def _check_hides_no_handler(owner: type) -> None:
    """Raise MessageError for an override that messages would pass by, while calls within the service take it."""
    for hidden in owner.__mro__:
        for name, method in vars(hidden).items():
            if getattr(method, HANDLES, False) and not getattr(getattr(owner, name), HANDLES, False):
                over = next(base for base in owner.__mro__ if name in vars(base))
                raise MessageError(
                    f"{over.__name__}.{name} is not marked, and overrides a method of {hidden.__name__} that takes "
                    "messages: mark it with @ordo.handles, too, or give it another name"
                )


def _handlers_of(owner: type, answers: list[type]) -> Handlers:
    """Return what the marked methods of one class take, as `__ordo_handlers__` has it; add what they answer."""
    handlers: Handlers = {}
    names: dict[type, str] = {}
    for name, method in vars(owner).items():
        if not getattr(method, HANDLES, False):
            continue
        taken, given = _types_of(owner, name, method)
        takes_header = len(signature(method).parameters) == PARAMETERS[-1]
        answers += filter(is_message, given)
        for one in taken:
            named = _answers_of(f"{owner.__name__}.{name}", one, given)
            answers += named
            if one in names:
                raise MessageError(f"{owner.__name__}.{names[one]} and {name} both take {one.__name__}")
            names[one] = name
            handlers[one] = method, takes_header, named
    return handlers


def _types_of(owner: type, name: str, method: Callable[..., object]) -> tuple[list[type], list[type]]:
    """Return the classes that a method takes, and those that it is annotated to return; none without an annotation."""
    parameters = list(signature(method).parameters)
    if len(parameters) not in PARAMETERS:
        raise MessageError(
            f"{owner.__name__}.{name} takes {parameters}: allowed are self, session, the message, and header after it"
        )
    try:
        hints = get_type_hints(method)
    except NameError as error:
        raise MessageError(f"{owner.__name__}.{name}: an annotation cannot be read: {error}") from error
    parameter = parameters[MESSAGE_PARAMETER]
    if parameter not in hints:
        raise MessageError(f"{owner.__name__}.{name}: annotate {parameter} with the class that it takes")
    taken, given = hints[parameter], hints.get("return")
    return list(alternatives_of(taken)), list(alternatives_of(given)) if "return" in hints else []


def _answers_of(method: str, taken: object, given: list[type]) -> tuple[type, ...]:
    """Return what answers a message. Raises MessageError for a method that is annotated to return anything else.

    Clients of a request expect what its class says; to other messages the answer may be anything.
    """
    if not isinstance(taken, type) or not issubclass(taken, Request):
        return ()
    if given and set(given) <= set(taken.__ordo_answers__):
        return taken.__ordo_answers__
    returns = f"returns {names_of(given)}" if given else "does not say what it returns"
    allowed = names_of(taken.__ordo_answers__)
    raise MessageError(f"{method} {returns}, but {taken.__name__} is answered by {allowed}: annotate it with that")
