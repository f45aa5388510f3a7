"""Settings: pydantic models read from TOML, with units in their types and one line for each error.

    class NodeSettings(Settings):
        heartbeat_interval_ns: DurationNs = 50_000_000      # "50ms" in the file
        term_length_bytes: SizeBytes = 65536                # "64k"

A key nobody knows is an error, never ignored.
"""

import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails

from ordo.runtime.errors import ConfigurationError

PLUGINS_VARIABLE = "PYDANTIC_DISABLE_PLUGINS"
_DURATIONS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_SIZES_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")


def _quantity(value: object, units: dict[str, int], allowed: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2].lower() not in units:
        raise ValueError(allowed)
    scaled = Decimal(match[1]) * units[match[2].lower()]
    if scaled != int(scaled):
        raise ValueError(allowed)
    return int(scaled)


def parse_duration_ns(value: object) -> int:
    """Return the nanoseconds of "500ms", "10s", "1us", "2m", "1h" or an int of nanoseconds. Raises ValueError."""
    return _quantity(value, _DURATIONS_NS, 'allowed: a number and a unit, as "500ms", "10s", "1us" (ns us ms s m h)')


def parse_size_bytes(value: object) -> int:
    """Return the bytes of "64k", "16m", "1g" (powers of 1024), "1408" or an int. Raises ValueError."""
    return _quantity(value, _SIZES_BYTES, 'allowed: bytes, or a number and k, m or g, as "64k", "16m", "1g"')


DurationNs = Annotated[int, BeforeValidator(parse_duration_ns)]
SizeBytes = Annotated[int, BeforeValidator(parse_size_bytes)]


def duration_within(low: str, high: str = "", *, or_zero: bool = False) -> AfterValidator:
    """Return the bounds of a duration, both included, as they are written in a file; without `high` there is none."""
    return _within(parse_duration_ns, low, high, "", or_zero=or_zero)


def size_within(low: str, high: str = "", per: str = "", *, or_zero: bool = False) -> AfterValidator:
    """Return the bounds of a size, as duration_within; `per` is what the error says after them, as "a second"."""
    return _within(parse_size_bytes, low, high, per, or_zero=or_zero)


def _within(parse: Callable[[object], int], low: str, high: str, per: str, *, or_zero: bool = False) -> AfterValidator:
    least, most = parse(low), parse(high) if high else math.inf
    bounds = f"{low} to {high}" if high else f"at least {low}"
    allowed = " ".join(word for word in ("allowed:", "0, or" if or_zero else "", bounds, per) if word)

    def check(value: int) -> int:
        if least <= value <= most or (or_zero and not value):
            return value
        raise ValueError(allowed)

    return AfterValidator(check)


_NUMBERS_AND_SWITCHES = {bool: "true or false", int: "a whole number", float: "a number"}


def _find_kind(annotation: object, metadata: Iterable[object] = ()) -> type | None:
    """Return bool, int or float where a key has one of these; None: another type, or one that reads text itself."""
    if any(isinstance(one, BeforeValidator) for one in metadata):
        return None
    if annotation in _NUMBERS_AND_SWITCHES:
        return annotation
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _find_kind(inner, more)
    if get_origin(annotation) in (Union, UnionType):
        return next((kind for one in get_args(annotation) if (kind := _find_kind(one)) is not None), None)
    return None


class Settings(BaseModel):
    """The base of every configuration: immutable, no unknown keys, and no value of another type than its key's.

    Durations and sizes alone may be texts: a switch in quotes, or a number that is a switch, is a mistake.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)
    """`defer_build`: what checks a table is made when it is first checked, and not for one that is part of another."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_of_its_type(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields[info.field_name or ""]
        kind = _find_kind(field.annotation, field.metadata)
        if kind is None or value is None:
            return value
        is_number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
        if not (isinstance(value, bool) if kind is bool else is_number):
            quotes = ", without quotes" if isinstance(value, str) else ""
            raise ValueError(f"allowed: {_NUMBERS_AND_SWITCHES[kind]}{quotes}")
        return value

    @classmethod
    def from_mapping(cls, values: dict[str, Any], source: str = "") -> Self:
        """Return validated settings. Raises ConfigurationError with one line for each wrong key."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigurationError(render_errors(error, source)) from None

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Return the settings of a TOML file. Raises ConfigurationError."""
        return cls.from_mapping(read_toml(path), str(path))


@contextmanager
def without_plugins() -> Iterator[None]:
    """Have pydantic make models without plugins, which it looks for in all installed distributions: 11 ms.

    For a command that reads settings; what a user's code makes of pydantic afterwards has its plugins.
    """
    if PLUGINS_VARIABLE in os.environ:
        yield
        return
    os.environ[PLUGINS_VARIABLE] = "__all__"
    try:
        yield
    finally:
        del os.environ[PLUGINS_VARIABLE]


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises ConfigurationError when it is missing or not TOML."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot read configuration: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from None


def render_errors(error: ValidationError, source: str = "") -> str:
    """Return one line for each wrong key: where, key, value, what is allowed."""
    return "\n".join(_line(details, f"{source}: " if source else "") for details in error.errors())


def _line(details: ErrorDetails, prefix: str) -> str:
    key = ".".join(str(part) for part in details["loc"])
    reason = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        return f"{prefix}{key}: unknown key; remove it or correct its spelling"
    if details["type"] == "missing":
        return f"{prefix}{key}: missing; give it a value"
    if details["type"] == "list_type" and isinstance(details["input"], dict):
        return f"{prefix}{key}: a list of tables; write [[{key}]] in place of [{key}]"
    subject = f"{prefix}{key} = {details['input']!r}" if key else f"{prefix.removesuffix(': ')}"
    return f"{subject}: {reason}".removeprefix(": ")
