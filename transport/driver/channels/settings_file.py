"""A driver's TOML file: the fields of MediaDriverSettings, durations and lengths with their units.

directory = "/dev/shm/aeron-orders"
threading_mode = "dedicated"
sender_cpu = 2
client_liveness_timeout = "10s"       # client_liveness_timeout_ns
term_length = "16m"
[encryption]
key_file = "driver.key"
trusted_file = "trusted.keys"
"""

from __future__ import annotations

from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.config import parse_duration_ns, parse_size_bytes, read_toml
from ordo.transport.driver.channels.settings import THREADING_MODES, MediaDriverSettings, default_directory

_LENGTH_ENDINGS = (
    "_length",
    "_length_max",
    "_memory_max",
    "_memory_per_source_max",
    "_capacity",
    "_window",
    "_size",
    "mtu",
    "_rcvbuf",
    "_sndbuf",
)
PROGRAM_MODES = tuple(mode for mode in THREADING_MODES if mode != "invoker")
_KINDS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "str": (str,), "bytes": (str,)}


def load_driver_settings(path: Path | None, **overrides: object) -> MediaDriverSettings:
    """Return the file's settings, if there is one, with those of `overrides` that are not None over them.

    Raises ConfigurationError with one line for a key that nobody knows or a value that does not fit.
    """
    values: dict[str, Any] = {"directory": default_directory(), "threading_mode": PROGRAM_MODES[0]}
    known = {field.name.removesuffix("_ns"): field for field in fields(MediaDriverSettings)}
    for key, value in _flat(read_toml(path) if path is not None else {}).items():
        if key not in known:
            raise ConfigurationError(f"{path}: {key}: unknown key; remove it or correct its spelling")
        values[known[key].name] = _value(known[key], value, f"{path}: {key}")
    values |= {name: value for name, value in overrides.items() if value is not None}
    if values["threading_mode"] == "invoker":
        raise ConfigurationError(
            f'threading_mode = "invoker": a program has threads of its own: {", ".join(PROGRAM_MODES)}'
        )
    return MediaDriverSettings(**values)


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """Return the `[encryption]` table's keys as fields of the configuration."""
    block = table.pop("encryption", {})
    if not isinstance(block, dict):
        raise ConfigurationError("encryption: must be a table, [encryption], with key_file and trusted_file")
    return table | {f"encryption_{key}": value for key, value in block.items()}


def _value(field: Field[Any], value: object, where: str) -> Any:
    try:
        if field.name.endswith("_ns"):
            return parse_duration_ns(value)
        if field.name.endswith(_LENGTH_ENDINGS):
            return parse_size_bytes(value)
    except ValueError as error:
        raise ConfigurationError(f"{where} = {value!r}: {error}") from None
    kind = str(field.type).removesuffix(" | None")
    if not isinstance(value, _KINDS[kind]) or (kind == "int" and isinstance(value, bool)):
        raise ConfigurationError(f"{where} = {value!r}: must be {'text' if kind in ('str', 'bytes') else kind}")
    return str(value).encode() if kind == "bytes" else value
