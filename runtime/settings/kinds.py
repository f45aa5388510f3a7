"""Checks that the fields of a dataclass have values of the kinds that they are annotated with.

Settings that are made in Python have no parser in front of them: without this check `repeats="false"` is true,
`silence_s="2"` ends with a TypeError where it is used, and `True` is a number of seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from ordo.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_UNITS = {"_s": "seconds", "_ns": "nanoseconds", "_bytes": "bytes"}
"""Units that names end in, for the texts of errors."""
_SECRETS = ("credential", "secret", "token", "key", "header", "storage", "url")
"""A value whose name has one of these is not shown."""
_FILES = ("file", "folder", "directory", "dir", "journal", "certificate", "key", "ca")
"""A text whose name ends in one of these words is the path of a file, and may be a Path."""
_SHOWN_MAX = 200
"""So much of a value is shown."""


class _Kind(NamedTuple):
    """What a member of a union takes, and what an error calls it."""

    takes: Callable[[object], bool]
    allowed: str


def _is_number(value: object, wanted: type) -> bool:
    return isinstance(value, wanted) and not isinstance(value, bool)


_PLAIN = {
    "None": _Kind(lambda value: value is None, "None"),
    "bool": _Kind(lambda value: isinstance(value, bool), "True or False"),
    "int": _Kind(lambda value: _is_number(value, Integral), "a whole number"),
    "float": _Kind(lambda value: _is_number(value, Real) and value == value, "a number"),  # and not NaN
    "str": _Kind(lambda value: isinstance(value, str), "text"),
    "bytes": _Kind(lambda value: isinstance(value, bytes), "bytes"),
    "Callable": _Kind(callable, "a function"),
    "Mapping": _Kind(lambda value: isinstance(value, Mapping), "a mapping"),
}
_PATH = _Kind(lambda value: isinstance(value, str | PathLike), "text or a path")


def _parts(annotation: str, separator: str) -> list[str]:
    """Return the members of a union, or what a mapping is made of."""
    parts, depth = [""], 0
    for character in annotation:
        depth += (character == "[") - (character == "]")
        if character == separator and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _find_kind(member: str, module: object) -> _Kind | None:
    """Return what a member of a union takes; None where that is no class that the module has when it runs.

    A protocol is none: it says what an object does, not what it is.
    """
    name, _, inner = member.removesuffix("]").partition("[")
    if name in ("Sequence", "Collection"):
        return _list_of(_find_kind(inner, module))
    if name in ("Mapping", "dict") and inner:
        return _mapping_of(*(_find_kind(part, module) for part in _parts(inner, ",")))
    if name in _PLAIN:
        return _PLAIN[name]
    found = getattr(module, name, None)
    if not isinstance(found, type) or getattr(found, "_is_protocol", False):
        return None
    return _instance_of(found)


def _instance_of(wanted: type) -> _Kind:
    example = f", such as {wanted.__name__}.{next(iter(wanted)).name}" if issubclass(wanted, Enum) else ""
    return _Kind(lambda value: isinstance(value, wanted), wanted.__name__ + example)


def _list_of(item: _Kind | None) -> _Kind | None:
    if item is None:
        return None

    def takes(value: object) -> bool:
        if isinstance(value, str | bytes) or not isinstance(value, Collection):
            return False
        return all(item.takes(one) for one in value)

    return _Kind(takes, f"a list of {item.allowed}")


def _mapping_of(key: _Kind | None, value: _Kind | None) -> _Kind:
    if key is None or value is None:
        return _PLAIN["Mapping"]

    def takes(mapping: object) -> bool:
        if not isinstance(mapping, Mapping):
            return False
        return all(key.takes(name) and value.takes(one) for name, one in mapping.items())

    return _Kind(takes, f"a mapping of {key.allowed} to {value.allowed}")


@cache
def _kinds(cls: type[DataclassInstance]) -> dict[str, list[_Kind]]:
    """Return what each field takes whose annotation is known as a whole."""
    known = {}
    for field in fields(cls):
        module = _module_of(field.name, cls)
        kinds = [_find_kind(member, module) for member in _parts(str(field.type), "|")]
        if field.name.rpartition("_")[2] in _FILES:
            kinds = [_PATH if kind is _PLAIN["str"] else kind for kind in kinds]
        if None not in kinds:
            known[field.name] = [kind for kind in kinds if kind is not None]
    return known


def _module_of(name: str, cls: type) -> object:
    """Return the module whose words the annotation of a field has; None where that is not to be found."""
    for owner in cls.__mro__:
        if name in vars(owner).get("__annotations__", ()):
            return sys.modules.get(owner.__module__)
    return None


def _show(name: str, value: object) -> str:
    """Return a value for the text of an error: of one that is a secret, or may have one in it, the type alone."""
    parts = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    is_plain = all(one is None or isinstance(one, str | bytes | Real | PathLike | Enum) for one in parts)
    if not is_plain or any(word in name for word in _SECRETS):
        return f" of type {type(value).__name__}"
    return f"={value!r}"[:_SHOWN_MAX]


def _error(name: str, value: object, kinds: list[_Kind]) -> ConfigurationError:
    shown = _show(name, value)
    unit = next((f" of {unit}" for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")
    allowed = " or ".join(f"{kind.allowed}{unit if 'number' in kind.allowed else ''}" for kind in kinds)
    hint = "; text.encode() gives bytes" if isinstance(value, str) and _PLAIN["bytes"] in kinds else ""
    return ConfigurationError(f"{name}{shown}: must be {allowed}{hint}")


def check_kinds(settings: DataclassInstance) -> None:
    """Raise ConfigurationError for a field whose value is not of the kind that its annotation names.

    A whole number is a number, True is none; where a text names a file, a Path does, too. Annotations of which a part
    is no class, such as an alias of a union, are left to the class of the settings.
    """
    for name, kinds in _kinds(type(settings)).items():
        value = getattr(settings, name)
        if not any(kind.takes(value) for kind in kinds):
            raise _error(name, value, kinds)


def check_seconds(settings: DataclassInstance, *names: str) -> None:
    """Raise ConfigurationError unless these fields are times above 0 that end."""
    for name in names:
        if not 0 < getattr(settings, name) < float("inf"):
            raise ConfigurationError(f"{name}={getattr(settings, name)}: must be a number of seconds above 0")


def check_counts(settings: DataclassInstance, *names: str) -> None:
    """Raise ConfigurationError unless these fields are 1 or more."""
    for name in names:
        if getattr(settings, name) < 1:
            raise ConfigurationError(f"{name}={getattr(settings, name)}: must be above 0")
