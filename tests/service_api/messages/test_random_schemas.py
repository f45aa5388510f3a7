"""Schemas with every type that a message can have: what the log keeps of them says the same as their classes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.messages import encode
from ordo.service_api.messages.layout import ARRAY, BOOLEAN, COMPOSITE, DECIMAL, RAW, FieldLayout, dimension_of
from ordo.service_api.messages.logged import pack_schema, unpack_schema
from ordo.service_api.messages.message import layout_of_message
from ordo.service_api.messages.plain import values_of
from tests.service_api.messages.random_schemas import draw

seeds = st.integers(0, 1 << 32)


def facts(of_class: type) -> list[Any]:
    """All that travels of a class, but for the names of the classes that it is made of."""
    found = layout_of_message(of_class)
    fields = [
        (
            one.name,
            one.place,
            one.length_bytes,
            one.kind,
            numbers(one),
            one.is_optional or one.since > 0,
            one.since,
            of(one),
        )
        for one in found.fields
    ]
    groups = [(one.name, one.since, dimension_of(one.rows), facts(one.row_class)) for one in found.groups]
    return [*fields, *groups, *found.data, found.block_length, found.is_big_endian]


def numbers(one: FieldLayout) -> Any:
    """How its numbers travel; no null value where it stands for nothing, and no meaning where it is no number."""
    own = one.primitive
    null = own.null if one.is_optional or one.since else None
    clock = (own.meaning, own.time_unit) if one.kind not in (DECIMAL, BOOLEAN) else None
    return own.name, own.low, own.high, str(null), clock


def of(one: FieldLayout) -> Any:
    """What it is made of."""
    if not isinstance(one.of, type):
        return one.of
    return list(one.of.__members__.items()) if hasattr(one.of, "__members__") else facts(one.of)


@settings(max_examples=30)
@given(seed=seeds)
def test_the_log_keeps_a_schema_of_any_types_as_it_is(seed: int) -> None:
    schema, values = draw(seed)
    found = unpack_schema(*pack_schema(schema))
    assert [facts(one) for one in found] == [facts(one) for one in schema]
    assert [facts(one) for one in unpack_schema(*pack_schema(found))] == [facts(one) for one in schema]
    for value in values:
        payload = encode(value)
        read = found.decode_recorded(payload)
        assert values_of(read) == values_of(value)
        assert encode(read)[:6] == payload[:6] and encode(read)[8:] == payload[8:], "all but the version"


def has_late_rows(of_class: type) -> bool:
    """Whether an older message would have fewer groups and data."""
    found = layout_of_message(of_class)
    is_late = any(one.since for one in found.groups) or any(one.since for one in found.data)
    return is_late or any(has_late_rows(one.row_class) for one in found.groups)


def as_older(value: object) -> dict[str, object]:
    """The values of a message of version 0: what came later is None."""
    layout = layout_of_message(type(value))
    values = values_of(value)
    values.update((one.name, None) for one in layout.fields if one.since)
    values.update((one.name, [as_older(row) for row in getattr(value, one.name)]) for one in layout.groups)
    return values


@settings(max_examples=30)
@given(seed=seeds)
def test_what_an_older_message_has_not_is_none_whatever_its_type(seed: int) -> None:
    schema, values = draw(seed)
    found = unpack_schema(*pack_schema(schema))
    for value in values:
        if not has_late_rows(type(value)):
            payload = encode(value)
            assert values_of(found.decode(payload[:6] + b"\0\0" + payload[8:])) == as_older(value)


@pytest.mark.parametrize("kind", [RAW, ARRAY, COMPOSITE])
def test_the_schemas_at_random_have_such_fields_of_later_versions(kind: int) -> None:
    """Otherwise the tests above would show little."""
    found = [one for seed in range(80) for message in draw(seed)[0] for one in layout_of_message(message).fields]
    late = [one for one in found if one.kind == kind and one.since]
    assert any(one.is_optional for one in late) and not all(one.is_optional for one in late)
