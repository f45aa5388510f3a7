"""NASDAQ TotalView-ITCH 5.0: every message type of the feed, decoded into named tuples.

A file is a row of messages, each behind a 2-byte big-endian length. A length of 0 ends a session: what comes after it,
if anything, is the next one. Files that write 0x0000 before each message are read as well: they begin with it, and the
lengths then follow from the types. Numbers are big-endian, prices are integers in 1/10000 dollar, and `timestamp_ns`
counts nanoseconds since midnight, New York time. Every message begins

    offset  0     1              3                5
            type  locate (u16)   tracking (u16)   timestamp (u48)
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, NamedTuple, cast

from ordo.runtime.errors import ConfigurationError, DecodeError

PRICE_SCALE = 10_000
CHUNK_BYTES = 1 << 18
"""A day's file has 8 GB: so much of it is in memory at a time."""


class SystemEvent(NamedTuple):
    """S: start and end of messages, system hours and market hours."""

    locate: int
    tracking: int
    timestamp_ns: int
    event_code: bytes


class StockDirectory(NamedTuple):
    """R: one instrument of the day."""

    locate: int
    tracking: int
    timestamp_ns: int
    stock: bytes
    market_category: bytes
    financial_status: bytes
    round_lot_size: int
    round_lots_only: bytes
    issue_classification: bytes
    issue_sub_type: bytes
    authenticity: bytes
    short_sale_threshold: bytes
    ipo_flag: bytes
    luld_tier: bytes
    etp_flag: bytes
    etp_leverage: int
    inverse: bytes


class TradingAction(NamedTuple):
    """H: halted, paused, quoted or trading."""

    locate: int
    tracking: int
    timestamp_ns: int
    stock: bytes
    trading_state: bytes
    reason: bytes


class RegShoRestriction(NamedTuple):
    """Y: short sale price test."""

    locate: int
    tracking: int
    timestamp_ns: int
    stock: bytes
    action: bytes


class ParticipantPosition(NamedTuple):
    """L: state of one market participant in one stock."""

    locate: int
    tracking: int
    timestamp_ns: int
    mpid: bytes
    stock: bytes
    primary_market_maker: bytes
    market_maker_mode: bytes
    state: bytes


class CircuitBreakerLevels(NamedTuple):
    """V: decline levels of the day, in 1/10^8 dollar."""

    locate: int
    tracking: int
    timestamp_ns: int
    level_1: int
    level_2: int
    level_3: int


class CircuitBreakerStatus(NamedTuple):
    """W: a decline level was breached."""

    locate: int
    tracking: int
    timestamp_ns: int
    breached_level: bytes


class IpoQuotingPeriod(NamedTuple):
    """K: expected release of an IPO."""

    locate: int
    tracking: int
    timestamp_ns: int
    stock: bytes
    release_time_s: int
    release_qualifier: bytes
    price: int


class AuctionCollar(NamedTuple):
    """J: price band of a reopening auction."""

    locate: int
    tracking: int
    timestamp_ns: int
    stock: bytes
    reference_price: int
    upper_price: int
    lower_price: int
    extension: int


class OperationalHalt(NamedTuple):
    """h: trading interrupted on one market."""

    locate: int
    tracking: int
    timestamp_ns: int
    stock: bytes
    market_code: bytes
    action: bytes


class AddOrder(NamedTuple):
    """A, and F with the participant's name: an order came to rest in the book."""

    locate: int
    tracking: int
    timestamp_ns: int
    reference: int
    side: bytes
    shares: int
    stock: bytes
    price: int
    attribution: bytes = b""


class OrderExecuted(NamedTuple):
    """E: a resting order was executed at its price."""

    locate: int
    tracking: int
    timestamp_ns: int
    reference: int
    shares: int
    match_number: int


class OrderExecutedAtPrice(NamedTuple):
    """C: a resting order was executed at another price than its own."""

    locate: int
    tracking: int
    timestamp_ns: int
    reference: int
    shares: int
    match_number: int
    printable: bytes
    price: int


class OrderCancel(NamedTuple):
    """X: a part of a resting order was cancelled."""

    locate: int
    tracking: int
    timestamp_ns: int
    reference: int
    shares: int


class OrderDelete(NamedTuple):
    """D: a resting order left the book."""

    locate: int
    tracking: int
    timestamp_ns: int
    reference: int


class OrderReplace(NamedTuple):
    """U: a resting order was replaced by a new one on the same side, behind all others of its price."""

    locate: int
    tracking: int
    timestamp_ns: int
    reference: int
    new_reference: int
    shares: int
    price: int


class Trade(NamedTuple):
    """P: an execution against an order that was never displayed; the book does not change."""

    locate: int
    tracking: int
    timestamp_ns: int
    reference: int
    side: bytes
    shares: int
    stock: bytes
    price: int
    match_number: int


class CrossTrade(NamedTuple):
    """Q: the result of an auction."""

    locate: int
    tracking: int
    timestamp_ns: int
    shares: int
    stock: bytes
    price: int
    match_number: int
    cross_type: bytes


class BrokenTrade(NamedTuple):
    """B: an execution was broken; the book does not change."""

    locate: int
    tracking: int
    timestamp_ns: int
    match_number: int


class Imbalance(NamedTuple):
    """I: net order imbalance before an auction."""

    locate: int
    tracking: int
    timestamp_ns: int
    paired_shares: int
    imbalance_shares: int
    direction: bytes
    stock: bytes
    far_price: int
    near_price: int
    reference_price: int
    cross_type: bytes
    variation: bytes


class RetailInterest(NamedTuple):
    """N: retail price improvement on offer."""

    locate: int
    tracking: int
    timestamp_ns: int
    stock: bytes
    interest: bytes


class DirectListing(NamedTuple):
    """O: price discovery of a direct listing with capital raise."""

    locate: int
    tracking: int
    timestamp_ns: int
    stock: bytes
    open_eligibility: bytes
    minimum_price: int
    maximum_price: int
    near_price: int
    near_time_ns: int
    lower_price: int
    upper_price: int


Decoder = Callable[[bytes, int], Any]


def _decoder(kind: Callable[..., Any], body: str) -> tuple[int, Decoder]:
    """Length of a message and the function that decodes it at an offset."""
    layout = Struct(">xHHHI" + body)
    unpack_from = layout.unpack_from

    def decode(data: bytes, offset: int) -> Any:
        locate, tracking, high, low, *fields = unpack_from(data, offset)
        return kind(locate, tracking, high << 32 | low, *fields)

    return layout.size, decode


LAYOUTS: dict[str, tuple[int, Decoder]] = {
    "S": _decoder(SystemEvent, "c"),
    "R": _decoder(StockDirectory, "8sccIcc2scccccIc"),
    "H": _decoder(TradingAction, "8scx4s"),
    "Y": _decoder(RegShoRestriction, "8sc"),
    "L": _decoder(ParticipantPosition, "4s8sccc"),
    "V": _decoder(CircuitBreakerLevels, "QQQ"),
    "W": _decoder(CircuitBreakerStatus, "c"),
    "K": _decoder(IpoQuotingPeriod, "8sIcI"),
    "J": _decoder(AuctionCollar, "8sIIII"),
    "h": _decoder(OperationalHalt, "8scc"),
    "A": _decoder(AddOrder, "QcI8sI"),
    "F": _decoder(AddOrder, "QcI8sI4s"),
    "E": _decoder(OrderExecuted, "QIQ"),
    "C": _decoder(OrderExecutedAtPrice, "QIQcI"),
    "X": _decoder(OrderCancel, "QI"),
    "D": _decoder(OrderDelete, "Q"),
    "U": _decoder(OrderReplace, "QQII"),
    "P": _decoder(Trade, "QcI8sIQ"),
    "Q": _decoder(CrossTrade, "Q8sIQc"),
    "B": _decoder(BrokenTrade, "Q"),
    "I": _decoder(Imbalance, "QQc8sIIIcc"),
    "N": _decoder(RetailInterest, "8sc"),
    "O": _decoder(DirectListing, "8scIIIQII"),
}
_BY_TYPE: dict[int, tuple[int, Decoder]] = {ord(letter): layout for letter, layout in LAYOUTS.items()}


def read_itch(data: bytes) -> Iterator[Any]:
    """Yield the messages of a file's content, in order.

    Raises DecodeError, with the offset, when a type is unknown, a length is not that of its type, or the file
    ends inside a message.
    """
    return _messages(io.BytesIO(data))


def read_itch_file(path: Path, on_progress: Callable[[int], object] = lambda _: None) -> Iterator[Any]:
    """Like `read_itch`, from a file, unpacked when its name ends in `.gz`. Memory stays flat.

    `on_progress` is told now and then how many bytes of the file have been read. Raises ConfigurationError when the
    file cannot be read, DecodeError also when a `.gz` is cut or damaged.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise _unreadable(path, error) from error
    return _messages_of(path, on_progress)


def _messages_of(path: Path, on_progress: Callable[[int], object]) -> Iterator[Any]:
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        unpacked = stack.enter_context(gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
        try:
            yield from _messages(cast(BinaryIO, unpacked), lambda: on_progress(file.tell()))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DecodeError(f"{path} is no whole .gz file: {error}; copy it again") from error
        except OSError as error:
            raise _unreadable(path, error) from error


def _messages(file: BinaryIO, on_chunk: Callable[[], object] = lambda: None) -> Iterator[Any]:
    decode = _Decoder()
    data, base = b"", 0  # what is not decoded yet, and its offset in the file
    while chunk := file.read(CHUNK_BYTES):
        data += chunk
        on_chunk()
        offset = 0
        while (found := decode.next(data, offset, base)) is not None:
            message, offset = found
            if message is not None:
                yield message
        data, base = data[offset:], base + offset
    if data not in (b"", END_OF_SESSION):
        raise _bad(base, "the file ends inside a message")


END_OF_SESSION = b"\0\0"


class _Decoder:
    """One message after the other. The first length of the file says of what kind it is."""

    def __init__(self) -> None:
        self._has_lengths: bool | None = None

    def next(self, data: bytes, offset: int, base: int) -> tuple[Any, int] | None:
        """Return the message at an offset, and the offset after it.

        The message is None for the end of a session; the result is None when not all of it is there yet.
        """
        start = offset + 2
        if start > len(data):
            return None
        stated_bytes = data[offset] << 8 | data[offset + 1]
        if self._has_lengths is None:
            self._has_lengths = stated_bytes != 0
        if self._has_lengths and stated_bytes == 0:
            return None, start
        if start == len(data):
            return None
        layout = _BY_TYPE.get(data[start])
        if layout is None:
            raise _bad(base + offset, f"unknown message type {chr(data[start])!r}")
        length_bytes, decode = layout
        if stated_bytes not in (0, length_bytes):
            raise _bad(base + offset, f"length={stated_bytes} of type {chr(data[start])!r}, expected {length_bytes}")
        if start + length_bytes > len(data):
            return None
        return decode(data, start), start + length_bytes


def _unreadable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"cannot read ITCH file {path}: {error.strerror or error}; give a readable file")


def _bad(offset: int, what: str) -> DecodeError:
    return DecodeError(f"not an ITCH 5.0 file: {what} at offset {offset}; give a file of length-prefixed messages")
