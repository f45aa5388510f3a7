"""What a running driver does, event by event (`ordo trace`; transport/driver/frames/event_log.pyx has the file)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from ordo.runtime.errors import DecodeError, OrdoError, StorageMissingError, TransportError
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.memory import MemoryProvider
from ordo.transport.control import commands
from ordo.transport.driver.channels.gossip import decode_entries
from ordo.transport.driver.frames import event_log
from ordo.transport.driver.frames.event_log import EventLog
from ordo.transport.udp import unpack_address

KINDS = {
    "frames-in": event_log.FRAME_IN,
    "frames-out": event_log.FRAME_OUT,
    "commands": event_log.COMMAND,
    "responses": event_log.RESPONSE,
    "states": event_log.STATE,
}
_NAMES = {
    event_log.FRAME_IN: "in",
    event_log.FRAME_OUT: "out",
    event_log.COMMAND: "command",
    event_log.RESPONSE: "response",
    event_log.STATE: "state",
}
_FRAMES: dict[int, tuple[str, str, str]] = {
    # type: name, layout after the 8 bytes of the base header, names of its values
    0: ("PAD", "<iiiiq", "term_offset session_id stream_id term_id reserved_value"),
    1: ("DATA", "<iiiiq", "term_offset session_id stream_id term_id reserved_value"),
    2: ("NAK", "<iiiii", "session_id stream_id term_id term_offset length"),
    3: ("SM", "<iiiiiq", "session_id stream_id term_id term_offset window receiver_id"),
    4: ("ERR", "<iiqqii", "session_id stream_id receiver_id group_tag error_code text_length"),
    5: ("SETUP", "<iiiiiiii", "term_offset session_id stream_id initial_term_id active_term_id term_length mtu ttl"),
    6: ("RTTM", "<iiqqq", "session_id stream_id echo_ns delay_ns receiver_id"),
    7: ("RES", "<", ""),
    11: ("RSP_SETUP", "<iii", "session_id stream_id response_session_id"),
}

ERR_LENGTH = 40
"""The length of an ERR frame before its text; the event log has the first 96 bytes of a datagram."""


@contextmanager
def open_trace(memory: MemoryProvider, directory: str, clock: Clock, kinds: int) -> Iterator[EventLog]:
    """Switch kinds of events on for the length of the block; there is one reader at a time.

    Raises StorageMissingError when no driver of Ordo has this folder, TransportError while somebody else reads.
    """
    try:
        log = EventLog(memory.open(f"{directory}/{event_log.FILE_NAME}"), clock)
    except OrdoError as error:
        raise StorageMissingError(f"no driver of Ordo in {directory}: {error}") from None
    if log.has_reader:
        log.close()
        raise TransportError(f"somebody reads the events of {directory} already; end that `ordo trace` first")
    log.show_reader()
    log.kinds = 0
    while log.ring.has_message():  # of the reader before
        log.ring.read(lambda kind, payload: None, 1_000)
    log.kinds = kinds
    try:
        yield log
    finally:
        log.kinds = 0
        log.show_reader(False)
        log.close()


def read_lines(log: EventLog, limit: int = 1_000) -> list[str]:
    """Take up to `limit` events that wait, a line for each, and show the driver that its reader lives."""
    lines: list[str] = []
    log.show_reader()
    while len(lines) < limit and log.ring.has_message():  # one read goes no further than the end of the ring
        log.ring.read(lambda kind, payload: lines.append(describe(kind, payload)), limit - len(lines))
    return lines


def describe(kind: int, payload: bytes) -> str:
    """Return one line for an event."""
    (time_ns,) = struct.unpack_from("<q", payload)
    time = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%H:%M:%S")
    body = payload[8:]
    if kind in (event_log.FRAME_IN, event_log.FRAME_OUT):
        text = _frame(body)
    elif kind == event_log.STATE:
        text = body.decode("ascii", "replace")
    else:
        text = _message(kind, body)
    return f"{time}.{time_ns % 1_000_000_000 // 1_000:06d} {_NAMES.get(kind, str(kind))} {text}"


def _frame(body: bytes) -> str:
    length, address_length = struct.unpack_from("<IB", body)
    packed, datagram = body[5 : 5 + address_length], body[5 + address_length :]
    peer = "{}:{} ".format(*unpack_address(packed)) if packed else ""
    if len(datagram) < 8:
        return f"{peer}length_bytes={length}"
    frame_length, _, flags, type_id = struct.unpack_from("<iBBH", datagram)
    name, layout, names = _FRAMES.get(type_id, (f"type={type_id}", "<", ""))
    if type_id == 1 and frame_length == 0:
        name = "HEARTBEAT"
    if len(datagram) < 8 + struct.calcsize(layout):
        return f"{peer}{name} length_bytes={length}"
    values = zip(names.split(), struct.unpack_from(layout, datagram, 8), strict=True)
    described = "".join(f" {key}={value}" for key, value in values)
    if name == "ERR":
        described += f" text={datagram[ERR_LENGTH:frame_length].decode('ascii', 'replace')!r}"
    elif name == "RES":
        described += _names_told(datagram)
    return f"{peer}{name} length_bytes={length} frame_length={frame_length} flags={flags:08b}{described}"


def _names_told(datagram: bytes) -> str:
    """Return the names of a frame's fields, as far as its first bytes reach."""
    told = ""
    try:
        for entry in decode_entries(datagram):
            own = " own" if entry.is_self else ""
            told += f"{own} name={entry.name} host={entry.host} port={entry.port} age_ms={entry.age_ms}"
    except DecodeError:
        told += " and more"
    return told


def _message(kind: int, body: bytes) -> str:
    (type_id,) = struct.unpack_from("<i", body)
    decode = commands.decode_command if kind == event_log.COMMAND else commands.decode_response
    found: Any
    try:
        found = decode(type_id, body[4:])
    except DecodeError as error:
        return f"type={type_id} that cannot be read: {error}"
    if found is None:
        return f"type={type_id} length_bytes={len(body) - 4}"
    values = found._asdict().items()
    return type(found).__name__ + "".join(f" {key}={value}" for key, value in values if "token" not in key)
