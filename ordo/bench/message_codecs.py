"""`ordo bench messages`: what it takes to write and to read a message of eight fields, beside other encodings.

Each way is measured as a program would use it: from an object with attributes to bytes, and back. They take turns, and
the least of the rounds counts, for everything else that runs can only add to it.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator, Mapping
from time import process_time
from timeit import Timer
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from ordo.service_api.messages.codec import decode, encode
from ordo.service_api.messages.fields import Int64, UInt8, UInt16, UInt32, UInt64
from ordo.service_api.messages.message import Schema, message

NAMES = ("order_id", "account", "price", "quantity", "instrument", "venue", "side", "flags")
VALUES = (10_000_000_001, 70_001, -12_345_600, 500, 123_456, 17, 1, 4)
FORM = struct.Struct("<4HQQqIIHBB")
HEADER = (36, 1, 1, 0)


@message(id=1)
class Order:
    """An order as exchanges have them."""

    order_id: UInt64
    account: UInt64
    price: Int64
    quantity: UInt32
    instrument: UInt32
    venue: UInt16
    side: UInt8
    flags: UInt8


SCHEMA = Schema("codecs", Order)


class Way(NamedTuple):
    """One way to write and to read the message, and how long it is."""

    name: str
    write: Callable[[], bytes]
    read: Callable[[], object]


def _ordo() -> Way:
    order = Order(*VALUES)
    payload = encode(order)
    return Way("Ordo", lambda: encode(order), lambda: decode(Order, payload))


def _struct() -> Way:
    order = Order(*VALUES)

    def write() -> bytes:
        return FORM.pack(
            *HEADER, order.order_id, order.account, order.price, order.quantity, order.instrument, order.venue,
            order.side, order.flags,
        )  # fmt: skip

    payload = write()
    return Way("struct", write, lambda: Order(*FORM.unpack(payload)[4:]))


def _msgspec() -> Way | None:
    try:
        msgspec = importlib.import_module("msgspec")
    except ModuleNotFoundError:
        return None
    kind = msgspec.defstruct("Order", [(name, int) for name in NAMES], array_like=True)
    order, encoder, decoder = kind(*VALUES), msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(kind)
    payload = encoder.encode(order)
    return Way("msgspec", lambda: bytes(encoder.encode(order)), lambda: decoder.decode(payload))


def _protobuf() -> Way | None:
    try:
        descriptors = importlib.import_module("google.protobuf.descriptor_pb2")
        factory = importlib.import_module("google.protobuf.message_factory")
    except ModuleNotFoundError:
        return None
    file = descriptors.FileDescriptorProto(name="order.proto", package="ordo.bench", syntax="proto3")
    entry = file.message_type.add(name="Order")
    for number, name in enumerate(NAMES, 1):
        kind = descriptors.FieldDescriptorProto.TYPE_SINT64 if name == "price" else 4  # 4: uint64
        entry.field.add(name=name, number=number, type=kind, label=1)
    order_class = factory.GetMessages([file])["ordo.bench.Order"]
    order = order_class(**dict(zip(NAMES, VALUES, strict=True)))
    payload = order.SerializeToString()

    def read() -> tuple[int, ...]:
        found = order_class.FromString(payload)
        return (
            found.order_id, found.account, found.price, found.quantity, found.instrument, found.venue, found.side,
            found.flags,
        )  # fmt: skip

    return Way("protobuf", order.SerializeToString, read)


def ways() -> Iterator[Way]:
    """Iterate over those whose library is installed."""
    for made in (_ordo(), _struct(), _msgspec(), _protobuf()):
        if made is not None:
            yield made


def time_each_ns(call: Callable[[], object], count: int) -> float:
    """Return the processor time of one of `count` calls in ns, without that of the garbage collector."""
    return round(Timer(call, timer=process_time).timeit(count) / count * 1e9, 1)


def measure_message_codecs(rounds: int, count: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return `message_codec_ns`: by way, `encode` and `decode` of one message in ns, and its `bytes`."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for way in ways():
            entry = found.setdefault(way.name, {"encode": float("inf"), "decode": float("inf")})
            entry["bytes"] = len(way.write())
            for name, call in (("encode", way.write), ("decode", way.read)):
                entry[name] = min(entry[name], time_each_ns(call, count))
    return {"message_codec_ns": found}


def show_message_codecs(console: Console, figures: Mapping[str, dict[str, dict[str, float]]]) -> None:
    """Print the figures if they are there."""
    table = Table("message of eight fields", "encode ns", "decode ns", "bytes", box=None)
    for name, entry in figures.get("message_codec_ns", {}).items():
        table.add_row(name, f"{entry['encode']:g}", f"{entry['decode']:g}", str(entry["bytes"]))
    if table.row_count:
        console.print(table)
