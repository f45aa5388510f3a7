"""Messages that a message answers: `class NewOrder(Request[Ack])`.

A client that sends one gets its answer as an object of that class, and type checkers know which it is.
"""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import ClassVar, Generic, TypeVar, Union, get_args, get_origin

from ordo.runtime.errors import MessageError, RequestOutcome
from ordo.runtime.payloads import to_bytes
from ordo.service_api.messages.codec import codec_of, encode_request
from ordo.service_api.messages.message import Schema, is_message

A = TypeVar("A", covariant=True)
ReadAnswer = Callable[[bytes], object]


class Request(Generic[A]):
    """The base of a message that the service answers with a message, whose class stands in brackets.

        @ordo.message(id=2)
        class NewOrder(ordo.Request[Ack]): ...

    A union, `Request[Ack | Refusal]`, has it answered by either. Raises MessageError for what is no message.
    """

    __slots__ = ()
    __ordo_answers__: ClassVar[tuple[type, ...]] = ()
    """The classes of the messages that answer it."""
    __ordo_read__: ClassVar[ReadAnswer]
    """Decodes the answer. Raises MessageError for any other message."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) is Request:
                (named,) = get_args(base)
                cls.__ordo_answers__ = alternatives_of(named)
                cls.__ordo_read__ = _reader_of(cls)
        if not cls.__ordo_answers__:
            raise MessageError(f"{cls.__name__}: say which message answers it, as Request[Ack]")


def alternatives_of(annotation: object) -> tuple[type, ...]:
    """Return the classes of a union, or the one class that an annotation is."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _reader_of(request_class: type[Request[object]]) -> ReadAnswer:
    """Return what decodes the answers of a class. Raises MessageError where one is no message."""
    answers = request_class.__ordo_answers__
    for one in answers:
        if not is_message(one):
            name = getattr(one, "__name__", one)
            raise MessageError(
                f"{request_class.__name__} cannot be answered by {name}: allowed are classes made by @message before "
                "it, one or a union"
            )
    return (
        codec_of(answers[0]).decode
        if len(answers) == 1
        else Schema(request_class.__name__, *answers).message_set.decode
    )


def to_request(payload: object) -> tuple[bytes, ReadAnswer | None]:
    """Return the bytes of a request, and what decodes its answer; None: the answer is bytes.

    Raises PayloadError for what is neither bytes nor a message, and MessageError for a message that names no answer, or
    has a value that its type does not allow.
    """
    if type(payload) is bytes:
        return payload, None
    try:
        found = encode_request(payload)
        if found is not None:
            return found
        if isinstance(payload, Request):
            codec_of(type(payload))  # which says what it lacks
    except MessageError as error:
        raise error.for_request(RequestOutcome.NOT_EXECUTED) from None
    if is_message(type(payload)):
        raise MessageError(
            f"not executed: {type(payload).__name__} names no answer: derive it from Request[...], or send its bytes, "
            "as encode(...)",
            outcome=RequestOutcome.NOT_EXECUTED,
        )
    return to_bytes(payload), None
