"""Messages as plain values, for what writes them in another form: columns of a table, JSON."""

from __future__ import annotations

from enum import Enum, Flag

from ordo.service_api.messages.layout import COMPOSITE, FieldLayout
from ordo.service_api.messages.message import layout_of_message


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


def _value(field: FieldLayout, value: object) -> object:
    if isinstance(value, Flag):
        return [one.name for one in field.of if one in value]
    if isinstance(value, Enum):
        return value.name
    if value is not None and field.kind == COMPOSITE:
        return values_of(value)
    return list(value) if isinstance(value, tuple) else value
