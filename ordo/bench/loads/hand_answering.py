"""Answers messages of three integers that are read and written by hand: types are measured beside it."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from ordo.bench.loads.echo_session import EchoSession
from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, ClusteredService
from ordo.service_api.snapshot import SnapshotWriter

VALUES = Struct("<8xQqq")
"""Number, time and price behind eight bytes, as a message with types has them behind its header."""


class HandAnswering(ClusteredService):
    """Answers each message with its values. Holds no state."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes:
        number, meant_ns, price = VALUES.unpack(payload)
        return VALUES.pack(number, meant_ns, price)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """Write nothing: the service has no state."""


class HandEchoSession(EchoSession):
    """Packs the values of each message, and unpacks those of each that answers it."""

    def writer(self, size_bytes: int) -> Callable[[int, int], bytes]:
        if size_bytes != VALUES.size:
            raise ValueError(f"size_bytes={size_bytes}: the values take {VALUES.size}")
        return lambda number, meant_ns: VALUES.pack(number, meant_ns, 0)

    def reader(self) -> Callable[[bytes], tuple[int, int]]:
        return _read


def _read(payload: bytes) -> tuple[int, int]:
    number, meant_ns, _ = VALUES.unpack(payload)
    return number, meant_ns
