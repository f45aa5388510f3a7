"""Classes whose objects are messages: `@message`, `@group`, `@composite`, and a schema of several.

    @ordo.message(id=1)
    class NewOrder:
        account: UInt32
        side: Side
        price: Annotated[Decimal, Fixed(2)]
        note: str = ""

The class becomes a dataclass with slots. `encode` and `decode` read and write it natively, in the encoding of SBE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, dataclass_transform

from ordo.runtime.errors import MessageError
from ordo.service_api.messages.blocks import BlockCodec
from ordo.service_api.messages.codec import MessageCodec, MessageSet, MessageView, codec_of
from ordo.service_api.messages.construction import construct_natively
from ordo.service_api.messages.fields import field
from ordo.service_api.messages.layout import NAMED, DataLayout, FieldLayout, GroupLayout, Layout, classes_in, layout_of

M = TypeVar("M")
ByteOrder = Literal["little", "big"]
ID_MAX = 65_534
"""The greatest id of a message, schema or version: a uint16 whose largest value means null."""

_layouts: dict[type, Layout] = {}
_codecs: dict[type, BlockCodec] = {}


@dataclass_transform(field_specifiers=(field,))
def message(
    id: int,
    version: int = 0,
    schema_id: int = 1,
    *,
    byte_order: ByteOrder = "little",
    block_length: int = 0,
) -> Callable[[type[M]], type[M]]:
    """Make a class a message of a schema.

    `id` tells the messages of one schema apart, `schema_id` schemas. `version` is the schema's at which the class is
    now: raise it with each field that is added, and give that field `field(since=version)`. `block_length` is for
    schemas that leave room after the last field. Raises MessageError for a field whose type has no place in a message.
    """
    for name, value in (("id", id), ("version", version), ("schema_id", schema_id)):
        if not 0 <= value <= ID_MAX:
            raise MessageError(f"{name} is {value}: allowed are 0 to {ID_MAX}")

    def make(of_class: type[M]) -> type[M]:
        made, layout = _laid_out(of_class, byte_order, block_length)
        late = [one.name for one in layout.parts if one.since > version]
        if late:
            raise MessageError(f"{made.__name__}.{late[0]} came after version {version}: raise the message's version")
        _check_order(layout)
        _codecs[made] = MessageCodec(*layout.codec_arguments(_codecs), (id, schema_id, version))
        return made

    return make


@dataclass_transform(field_specifiers=(field,))
def group(
    of_class: type[M] | None = None, *, byte_order: ByteOrder = "little", block_length: int = 0
) -> Any:  # the class itself, or what decorates it
    """Make a class the rows of a group: `legs: list[Leg]`. Rows may have groups and data of variable length."""

    def make(row_class: type[M]) -> type[M]:
        made, layout = _laid_out(row_class, byte_order, block_length)
        _codecs[made] = BlockCodec(*layout.codec_arguments(_codecs))
        return made

    return make if of_class is None else make(of_class)


@dataclass_transform(field_specifiers=(field,))
def composite(of_class: type[M] | None = None, *, byte_order: ByteOrder = "little") -> Any:
    """Make a class a composite: a field of a message that has fields itself, all of fixed length."""

    def make(part_class: type[M]) -> type[M]:
        made, layout = _laid_out(part_class, byte_order, 0, is_composite=True)
        if layout.groups or layout.data:
            raise MessageError(f"{made.__name__} has groups or data of variable length: no composite can")
        _codecs[made] = BlockCodec(*layout.codec_arguments(_codecs))
        return made

    return make if of_class is None else make(of_class)


def _laid_out(
    of_class: type[M], byte_order: ByteOrder, block_length: int, *, is_composite: bool = False
) -> tuple[type[M], Layout]:
    """Return a class as a dataclass with slots, and its layout."""
    if byte_order not in ("little", "big"):
        raise MessageError(f"byte_order is {byte_order!r}: allowed are 'little' and 'big'")
    if any(base in _layouts for base in of_class.__mro__):
        raise MessageError(f"{of_class.__name__} inherits from a message: write its fields out")
    if "__slots__" in of_class.__dict__:
        raise MessageError(f"{of_class.__name__} has __slots__ of its own: leave them out")
    has_own_init = "__init__" in of_class.__dict__
    try:
        made = dataclass(slots=True)(of_class)
    except (TypeError, ValueError) as error:
        raise MessageError(f"{of_class.__name__}: {error}") from error
    layout = layout_of(made, _layouts, block_length, byte_order == "big", is_composite)
    for part in classes_in(layout):
        if _layouts[part].is_big_endian != layout.is_big_endian:
            raise MessageError(f"{made.__name__} and {part.__name__} differ in their byte order")
    _layouts[made] = layout
    construct_natively(made, has_own_init, {one.name: one.of for one in layout.fields if one.kind in NAMED})
    return made, layout


def _check_order(layout: Layout) -> None:
    """Check that what came with a later version comes after what was there: an older reader would misread it."""
    sections: tuple[tuple[FieldLayout | GroupLayout | DataLayout, ...], ...] = (
        layout.fields,
        layout.groups,
        layout.data,
    )
    for parts in sections:
        versions = [one.since for one in parts]
        if versions != sorted(versions):
            name = next(one.name for one, since in zip(parts, sorted(versions), strict=True) if one.since != since)
            raise MessageError(f"{layout.of_class.__name__}.{name}: what is new in a version comes after what is older")


def layout_of_message(of_class: type) -> Layout:
    """Return the layout of a message's, a group's or a composite's class. Raises MessageError for another class."""
    found = _layouts.get(of_class)
    if found is None:
        raise MessageError(f"{getattr(of_class, '__name__', of_class)} is no message, group or composite")
    return found


def is_message(found: object) -> bool:
    """Return whether something is the class of a message."""
    return isinstance(found, type) and isinstance(_codecs.get(found), MessageCodec)


def view(message_class: type, payload: bytes | bytearray | memoryview) -> MessageView:
    """Return a view of a message, whose fields are read where they lie when they are asked for.

    It holds the payload's buffer until it is closed or dropped. Raises MessageError when `payload` is another message.
    """
    return MessageView(codec_of(message_class), payload)


class Schema:
    """Messages that travel together, such as all that a service takes: decodes whichever comes.

    `name` is the schema's package in SBE. All messages have the same schema id and byte order, and ids of their own.
    """

    def __init__(self, name: str, *messages: type) -> None:
        if not messages:
            raise MessageError(f"schema {name} has no messages")
        self.name = name
        self.messages = messages
        by_id: dict[int, type] = {}
        codecs = [codec_of(one) for one in messages]
        for one, codec in zip(messages, codecs, strict=True):
            other = by_id.setdefault(codec.template_id, one)
            if other is not one:
                raise MessageError(f"{one.__name__} and {other.__name__} have the same id, {codec.template_id}")
            if codec.schema_id != self.id:
                raise MessageError(f"{one.__name__} is of schema {codec.schema_id}, the others are of {self.id}")
            if layout_of_message(one).is_big_endian != self.is_big_endian:
                raise MessageError(f"{one.__name__} and {messages[0].__name__} differ in their byte order")
        self.message_set = MessageSet(self.id, self.is_big_endian, codecs)

    @property
    def id(self) -> int:
        """The schema's id, which each message has in its header."""
        return codec_of(self.messages[0]).schema_id

    @property
    def version(self) -> int:
        """The newest version that one of the messages is at."""
        return max(codec_of(one).version for one in self.messages)

    @property
    def is_big_endian(self) -> bool:
        """Whether numbers have their highest byte first."""
        return layout_of_message(self.messages[0]).is_big_endian

    def __iter__(self) -> Iterator[type]:
        return iter(self.messages)

    def __contains__(self, message_class: object) -> bool:
        return message_class in self.messages

    def decode(self, payload: bytes | bytearray | memoryview) -> Any:
        """Return the message that `payload` is, of whichever class. Raises MessageError for what the schema lacks."""
        return self.message_set.decode(payload)

    def decode_recorded(self, payload: bytes) -> object:
        """As `decode`, for readers of a log, which may be full of such payloads.

        Groups may have no more rows without bytes than the payload has bytes: a few bytes could say any number of them.
        """
        return self.message_set.decode_recorded(payload)
