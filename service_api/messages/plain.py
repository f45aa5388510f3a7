"""Messages as plain values, for what writes them in another form: columns of a table, JSON."""

from __future__ import annotations

from enum import Enum, Flag

from ordo.service_api.messages.layout import COMPOSITE, FieldLayout
from ordo.service_api.messages.message import layout_of_message

VERSION_MAX = 65_535


def values_of(message: object) -> dict[str, object]:
    """Return the fields of a message by name, as dicts, lists, numbers, Decimals, text and bytes.

    Enumerations are the names of their members, sets lists of these. Raises MessageError for what is no message.
    """
    layout = layout_of_message(type(message))
    values = {one.name: _value(one, getattr(message, one.name)) for one in layout.fields}
    for group in layout.groups:
        values[group.name] = [values_of(row) for row in getattr(message, group.name)]
    for data in layout.data:
        values[data.name] = getattr(message, data.name)
    return values


def says_same(one: object, other: object, version: int) -> bool:
    """Return whether two readings of a message of a version say the same: name, fields, types, values."""
    return type(one).__name__ == type(other).__name__ and _facts(one, version) == _facts(other, version)


def _facts(message: object, version: int) -> list[tuple[str, object]]:
    layout = layout_of_message(type(message))
    found: list[tuple[str, object]] = []
    for field in layout.fields:
        if field.since <= version:
            value = getattr(message, field.name)
            is_block = field.kind == COMPOSITE and value is not None
            found.append((field.name, _facts(value, VERSION_MAX) if is_block else _fact(_value(field, value))))
    for group in layout.groups:
        if group.since <= version:
            found.append((group.name, [_facts(row, version) for row in getattr(message, group.name)]))
    for data in layout.data:
        if data.since <= version:
            found.append((data.name, _fact(getattr(message, data.name))))
    return found


def _fact(value: object) -> object:
    """Return a value so that only what is the same is equal: True is not 1, but NaN is NaN."""
    if isinstance(value, list):
        return [_fact(one) for one in value]
    return type(value), "NaN" if value != value else value


def _value(field: FieldLayout, value: object) -> object:
    if isinstance(value, Flag):
        return [one.name for one in field.of if one in value]
    if isinstance(value, Enum):
        return value.name
    if value is not None and field.kind == COMPOSITE:
        return values_of(value)
    return list(value) if isinstance(value, tuple) else value
