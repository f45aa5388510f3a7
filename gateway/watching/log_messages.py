"""Messages as JSON, by the schemas that the log has for them (docs/MESSAGES.md, The schema in the log)."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from enum import IntEnum
from threading import Lock
from typing import NamedTuple

from ordo.follow.log_schemas import HEADER_LENGTH, LogSchemas, schemas_of
from ordo.runtime.errors import MessageError, OrdoError
from ordo.service_api.messages.codec import codec_of
from ordo.service_api.messages.message import layout_of_message
from ordo.service_api.messages.plain import values_of

EXACT_MAX = (1 << 53) - 1
"""JavaScript rounds greater numbers, so they are text."""
LOOK_INTERVAL_S = 5.0
"""Schemas that were found are not looked for again for so long; watchers of the log see newer ones as they come."""
KNOWN_MAX = 64
"""Callers whose schemas are kept."""


class Lack(IntEnum):
    """What schemas may lack for a message."""

    NOTHING = 0
    SCHEMA = 1
    """A schema of its id; bytes that are no message look so, too."""
    VERSION = 2
    """The version that it was written with, or its message in a schema that is known."""


class _Known(NamedTuple):
    schemas: LogSchemas
    looked_s: float


class LogMessages:
    """The schemas of the log, as far as each caller may see it: with the role log, where the cluster authenticates."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = list(addresses)
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ordo-schemas")

    async def find(self, credentials: bytes, upto: int = 0) -> LogSchemas:
        """Return the schemas, to which their caller may add: all up to a position of the log. Raises OrdoError.

        Callers wait for one thread of their own, so that a long look takes none from the console.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.look, credentials, upto)

    def look(self, credentials: bytes, upto: int = 0) -> LogSchemas:
        """Do the same, and wait. One caller looks at a time: each takes one of the replays of a node."""
        with self._lock:
            known = self._known.get(credentials)
            is_known = known is not None and known.schemas.searched_to >= upto
            if known is None or not is_known or time.monotonic() - known.looked_s > LOOK_INTERVAL_S:
                known = self._known[credentials] = _Known(self._look(credentials, known), time.monotonic())
            self._known.move_to_end(credentials)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
            return known.schemas.copy()

    def _look(self, credentials: bytes, known: _Known | None) -> LogSchemas:
        """Go on behind what is known; where the log has been cut there, look through all of it again."""
        if known is not None:
            with suppress(OrdoError):
                return schemas_of(self._addresses, credentials=credentials, known=known.schemas)
        return schemas_of(self._addresses, credentials=credentials)


class Headers:
    """What the headers of messages may say that some schemas know."""

    def __init__(self, schemas: LogSchemas) -> None:
        self._versions: dict[tuple[bool, int], dict[int, int]] = {}
        """Byte order and id of a schema -> id of a message -> its newest version."""
        for one in schemas.newest:
            versions = self._versions.setdefault((one.is_big_endian, one.id), {})
            for of_class in one.messages:
                codec = codec_of(of_class)
                versions[codec.template_id] = max(codec.version, versions.get(codec.template_id, 0))

    def lack(self, payload: bytes) -> Lack:
        """Return what is not known of a payload, by its header."""
        if len(payload) < HEADER_LENGTH:
            return Lack.NOTHING
        found = Lack.SCHEMA
        for (is_big_endian, schema_id), versions in self._versions.items():
            _, template_id, known_id, version = struct.unpack_from(">4H" if is_big_endian else "<4H", payload)
            if known_id == schema_id:
                if version <= versions.get(template_id, -1):
                    return Lack.NOTHING
                found = Lack.VERSION
        return found


def describe(schemas: LogSchemas, payload: bytes, position: int) -> dict[str, object]:
    """Return what a payload at a position says, as fields of a JSON object: `message`, or the `problem`."""
    try:
        found = schemas.read(payload, position)
        is_big_endian = layout_of_message(type(found)).is_big_endian
        version = int.from_bytes(payload[6:8], "big" if is_big_endian else "little")
        said = {"name": type(found).__name__, "version": version, "values": as_json(values_of(found))}
    except MessageError as error:
        return {"problem": error.message}
    return {"message": said}


def as_json(value: object) -> object:
    """Return a value as JSON has it, without a loss: decimals and large integers are text, bytes are Base64."""
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    is_large = isinstance(value, int) and abs(value) > EXACT_MAX
    return str(value) if is_large else value
