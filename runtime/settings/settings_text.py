"""The description of settings for people: every key with its kind, default and purpose.

It is made from their models.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ordo.runtime.settings.config import Settings, parse_duration_ns, parse_size_bytes

_DURATION_UNITS = (("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_SIZE_UNITS = (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10))


class Key(NamedTuple):
    """One key of a table; `default` and `example` are written as in the file.

    `default` is empty when the key may be left unset, and then there is an `example`, as for a required key.
    """

    name: str
    kind: str
    default: str
    example: str
    is_required: bool
    description: str


class Table(NamedTuple):
    """One table of a file: its keys, whether there may be several (`[[name]]`), and whether it has to be there."""

    name: str
    is_list: bool
    is_required: bool
    description: str
    keys: tuple[Key, ...]

    @property
    def header(self) -> str:
        return f"[[{self.name}]]" if self.is_list else f"[{self.name}]"


def tables_of(model: type[Settings]) -> tuple[Table, ...]:
    """Return the tables of a file, from the model of the file, whose fields are tables."""
    return tuple(_tables(model))


def _tables(model: type[Settings]) -> Iterator[Table]:
    for name, field in model.model_fields.items():
        section, is_list = field.annotation, get_origin(field.annotation) is list
        if is_list:
            (section,) = get_args(section)
        assert isinstance(section, type)
        assert issubclass(section, Settings)
        description = " ".join((section.__doc__ or "").split())
        keys = tuple(_key(key_name, key) for key_name, key in section.model_fields.items())
        yield Table(field.alias or name, is_list, field.is_required(), description, keys)


def _key(name: str, field: FieldInfo) -> Key:
    required = field.is_required()
    default = None if required or field.default is PydanticUndefined else field.default
    text = "" if default is None or default == {} else toml_value(default, unit_of(field))
    example = "".join(toml_value(one) for one in (field.examples or ())[:1])
    return Key(field.alias or name, _kind(field), text, example, required, field.description or "")


def unit_of(field: FieldInfo) -> Literal["duration", "size", ""]:
    """Return whether the values of a key are written with a unit of time, of length, or without one."""
    for parser in _parsers(field.metadata, field.annotation):
        if parser is parse_duration_ns:
            return "duration"
        if parser is parse_size_bytes:
            return "size"
    return ""


def toml_value(value: object, unit: str = "") -> str:
    """Return a value in TOML syntax; 500_000_000 of unit "duration" is `"500ms"`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(one, unit) for one in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml_value(key)} = {toml_value(one)}" for key, one in value.items()) + " }"
    if unit and isinstance(value, int):
        return _with_unit(value, _DURATION_UNITS if unit == "duration" else _SIZE_UNITS)
    if isinstance(value, int | float):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _with_unit(value: int, units: tuple[tuple[str, int], ...]) -> str:
    for name, factor in units:
        if value and value % factor == 0:
            return f'"{value // factor}{name}"'
    return str(value)


def _parsers(metadata: list[Any], annotation: object) -> Iterator[Any]:
    """Yield the validators of a field: its own, and those of the alternatives of `X | None`."""
    yield from (one.func for one in metadata if isinstance(one, BeforeValidator))
    for part in get_args(annotation):
        yield from (one.func for one in getattr(part, "__metadata__", ()) if isinstance(one, BeforeValidator))


def _kind(field: FieldInfo) -> str:
    unit = unit_of(field)
    if unit:
        return unit
    annotation, metadata = _without_none(field.annotation), field.metadata
    if get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        metadata = [*metadata, *(bound for one in notes if isinstance(one, FieldInfo) for bound in one.metadata)]
    if get_origin(annotation) in (list, tuple):
        one = get_args(annotation)[0]
        return "list of " + (", ".join(f'"{choice}"' for choice in get_args(one)) or "texts")
    if get_origin(annotation) is dict:
        return "table of texts"
    if get_origin(annotation) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(annotation))
    if annotation is bool:
        return "true or false"
    if annotation is int:
        return "whole number" + _bounds(metadata)
    if annotation is float:
        return "number" + _bounds(metadata)
    return "path" if getattr(annotation, "__name__", "") == "Path" else "text"


def _without_none(annotation: object) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
    return annotation


def _bounds(metadata: list[Any]) -> str:
    above = next((one.gt for one in metadata if isinstance(one, Gt)), None)
    low = next((one.ge for one in metadata if isinstance(one, Ge)), None)
    high = next((one.le for one in metadata if isinstance(one, Le)), None)
    return (
        ("" if above is None else f" above {above}")
        + ("" if low is None else f" from {low}")
        + ("" if high is None else f" {'to' if above is None else 'up to'} {high}")
    )
