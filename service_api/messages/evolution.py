"""Whether programs with an older and a newer schema can read each other's messages (sbe-encoding.md §7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ordo.service_api.messages.codec import codec_of
from ordo.service_api.messages.layout import (
    COMPOSITE,
    FLAGS,
    NAMED_CHARACTER,
    NAMED_NUMBER,
    DataLayout,
    FieldLayout,
    GroupLayout,
    Layout,
    dimension_of,
)
from ordo.service_api.messages.message import Schema, layout_of_message


def breaks(old: Schema, new: Schema) -> list[str]:
    """Return what keeps programs with the old schema and with the new one from reading each other, a line each.

    Fields, groups and data may be added after those that are there, with `since` above the old version. Nothing may be
    moved, removed, get another type, or become optional or not. Members of enumerations may be added, and renamed; old
    programs refuse messages with new ones.
    """
    return list(_breaks(old, new))


def _breaks(old: Schema, new: Schema) -> Iterator[str]:
    if old.id != new.id:
        yield f"the schema's id is {new.id}, it was {old.id}"
    if old.is_big_endian != new.is_big_endian:
        yield "the byte order is another"
    if new.version < old.version:
        yield f"the version is {new.version}, below {old.version}"
    by_id = {codec_of(one).template_id: one for one in new.messages}
    for before in old.messages:
        template_id = codec_of(before).template_id
        after = by_id.get(template_id)
        if after is None:
            yield f"{before.__name__}: the message of id {template_id} is missing"
        else:
            yield from _Comparison(old.version).compare(
                after.__name__, layout_of_message(before), layout_of_message(after)
            )


@dataclass(frozen=True)
class _Comparison:
    """Compares layouts. What is new in them came after `version`."""

    version: int

    def compare(self, name: str, old: Layout, new: Layout) -> Iterator[str]:
        if new.block_length < old.block_length:
            yield f"{name}: the block has {new.block_length} bytes, it had {old.block_length}"
        yield from self._fields(name, old.fields, new.fields)
        yield from self._rest(name, "group", old.groups, new.groups)
        yield from self._rest(name, "data", old.data, new.data)
        for before, after in zip(old.groups, new.groups, strict=False):
            if before.name == after.name:
                rows = layout_of_message(before.row_class), layout_of_message(after.row_class)
                yield from self.compare(f"{name}.{before.name}", *rows)

    def _fields(self, name: str, old: tuple[FieldLayout, ...], new: tuple[FieldLayout, ...]) -> Iterator[str]:
        after = {one.name: one for one in new}
        for one in old:
            found = after.pop(one.name, None)
            if found is None:
                yield f"{name}.{one.name} is missing: keep what old messages have"
            elif _travels(found) != _travels(one):
                yield f"{name}.{one.name} is {_describe(found)}, it was {_describe(one)}"
            elif one.kind == COMPOSITE:
                parts = layout_of_message(one.of).fields, layout_of_message(found.of).fields
                yield from self._fields(f"{name}.{one.name}", *parts)
            elif one.kind in (NAMED_NUMBER, NAMED_CHARACTER, FLAGS):
                yield from _values(f"{name}.{one.name}", one.of, found.of)
        for one in after.values():
            if one.since <= self.version:
                yield f"{name}.{one.name} is new: it needs field(since=...) above {self.version}"

    def _rest(
        self,
        name: str,
        what: str,
        old: tuple[GroupLayout | DataLayout, ...],
        new: tuple[GroupLayout | DataLayout, ...],
    ) -> Iterator[str]:
        """Compare groups, or data: they are read one after the other, so what is new comes last."""
        for before, after in zip(old, new, strict=False):
            if before.name != after.name:
                yield f"{name}.{after.name} is where {before.name} was: add a {what} after those that are there"
                return
            if _travels(before) != _travels(after):
                yield f"{name}.{after.name} travels in another way than it did"
        if len(new) < len(old):
            yield f"{name}.{old[len(new)].name} is missing: keep what old messages have"
        for one in new[len(old) :]:
            if one.since <= self.version:
                yield f"{name}.{one.name} is new: it needs field(since=...) above {self.version}"


def _values(name: str, old: type[Enum], new: type[Enum]) -> Iterator[str]:
    """Compare enumerations: a member that was renamed is the same, one with another value is not."""
    after, kept = {one.name: one.value for one in new}, {one.value for one in new}
    for one in old:
        if after.get(one.name, one.value) != one.value:
            yield f"{name}: {one.name} is {after[one.name]}, it was {one.value}"
        elif one.value not in kept:
            yield f"{name}: {one.name} ({one.value}) is missing: keep what old messages have"


def _travels(part: FieldLayout | GroupLayout | DataLayout) -> tuple[object, ...]:
    """Return what must stay as it is."""
    if isinstance(part, FieldLayout):
        scale = part.of if isinstance(part.of, int) else None
        null = part.primitive.null if part.is_optional or part.since else None  # what came later may be None on import
        return part.place, part.length_bytes, part.kind, part.primitive.name, null, scale
    if isinstance(part, GroupLayout):
        return dimension_of(part.rows)
    return part.is_text, part.length.name


def _describe(one: FieldLayout) -> str:
    return f"{one.length_bytes} bytes at {one.place} ({one.allowed})"
