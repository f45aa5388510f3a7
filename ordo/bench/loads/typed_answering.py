"""Answers messages with types: what `ordo bench requests` measures beside raw ones of the same length."""

from __future__ import annotations

from collections.abc import Callable

from ordo.bench.loads.echo_session import EchoSession
from ordo.service_api.cluster import ClientSession
from ordo.service_api.messages.codec import decode, encode
from ordo.service_api.messages.fields import Int64, UInt64
from ordo.service_api.messages.message import message
from ordo.service_api.messages.request import Request
from ordo.service_api.messages.typed_service import TypedService, handles
from ordo.service_api.snapshot import SnapshotWriter

SIZE_BYTES = 32
"""The length of both messages: a header of 8 bytes, and three fields of 8."""


@message(id=2)
class Told:
    """The answer to an Ask, with the same values."""

    number: UInt64
    meant_ns: Int64
    price: Int64


@message(id=1)
class Ask(Request[Told]):
    """Asks for its own values."""

    number: UInt64
    meant_ns: Int64
    price: Int64


class TypedAnswering(TypedService):
    """Holds no state."""

    @handles
    def tell(self, session: ClientSession | None, ask: Ask) -> Told:
        return Told(ask.number, ask.meant_ns, ask.price)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """Write nothing: the service has no state."""


class TypedEchoSession(EchoSession):
    """Offers an Ask for each message, and reads each Told that answers it."""

    def writer(self, size_bytes: int) -> Callable[[int, int], bytes]:
        if size_bytes != SIZE_BYTES:
            raise ValueError(f"size_bytes={size_bytes}: an Ask has {SIZE_BYTES}")
        return lambda number, meant_ns: encode(Ask(number, meant_ns, 0))

    def reader(self) -> Callable[[bytes], tuple[int, int]]:
        return _read


def _read(payload: bytes) -> tuple[int, int]:
    told = decode(Told, payload)
    return told.number, told.meant_ns
