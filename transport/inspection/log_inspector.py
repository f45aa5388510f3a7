"""An inspector of a log buffer file of any driver of the layout (log-buffer.md).

It may be used whether or not somebody writes to the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ordo.runtime.errors import TransportError
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.streams.logbuffer import LogBuffers, open_log

HEADER_LENGTH = 32
ALIGNMENT = 32
TYPES = {0: "PAD", 1: "DATA"}
_HEADER = struct.Struct("<iBBHiiiiq")
_METADATA_LENGTH = 4096
_STEP = 64 * 1024  # the shortest term: what is all zero of it is stepped over at once
_METADATA_TYPE_OFFSET = 497
_KINDS = ("publication", "exclusive publication", "image")


class Term(NamedTuple):
    """One term of the file; the tail is its counter's value, 0 in an image. `position` is that of the tail."""

    number: int
    term_id: int
    tail_offset: int
    position: int


class FrameLine(NamedTuple):
    """One committed frame of a log buffer, as the inspector prints it."""

    term_number: int
    offset: int
    frame_length: int
    flags: int
    type_name: str
    term_offset: int
    session_id: int
    stream_id: int
    term_id: int
    reserved_value: int
    payload: bytes


class LogInspector:
    """A log buffer file, mapped read only; `close` it.

    Raises StorageError subclasses or TransportError for what is no log.
    """

    def __init__(self, path: str) -> None:
        self._log: LogBuffers = open_log(FileMemoryProvider(), path, writable=False)

    def close(self) -> None:
        self._log.close()

    def describe(self) -> list[tuple[str, str]]:
        """Return the metadata of a log buffer as pairs of name and value."""
        log = self._log
        with log.view() as view:
            kind = view[len(view) - _METADATA_LENGTH + _METADATA_TYPE_OFFSET]
        return [
            ("file", log.path),
            ("kind", _KINDS[kind] if kind < len(_KINDS) else f"unknown ({kind})"),
            ("session", str(log.session_id)),
            ("stream", str(log.stream_id)),
            ("correlation id", str(log.correlation_id)),
            ("initial term id", str(log.initial_term_id)),
            ("term length", f"{log.term_length:,}"),
            ("MTU", f"{log.mtu:,}"),
            ("term count", str(log.term_count)),
            ("connected", "yes" if log.connected else "no"),
            ("end of stream", "not yet" if log.eos_position == (1 << 63) - 1 else f"{log.eos_position:,}"),
            ("revoked", "yes" if log.revoked else "no"),
        ]

    def terms(self) -> list[Term]:
        found = []
        for number, (term_id, tail_offset) in enumerate(self._log.tails()):
            count = (term_id - self._log.initial_term_id + (1 << 31)) % (1 << 32) - (1 << 31)
            offset = min(tail_offset, self._log.term_length)
            found.append(Term(number, term_id, tail_offset, count * self._log.term_length + offset))
        return found

    def frames(self, term_number: int, payload_bytes_max: int) -> Iterator[FrameLine]:
        """Yield the committed frames of a term from its beginning, up to the first that is not committed.

        An image that was joined in the middle of a term begins with a hole, which is stepped over. No length is
        trusted: what does not lie inside the term ends it with TransportError.
        """
        log = self._log
        base, end = term_number * log.term_length, log.term_length
        with log.view() as view:
            offset = self._first_frame(view, base, end)
            while offset <= end - HEADER_LENGTH:
                length, _, flags, kind, term_offset, session, stream, term, reserved = _HEADER.unpack_from(
                    view, base + offset
                )
                if length <= 0:
                    return
                if length < HEADER_LENGTH or length > end - offset:
                    raise TransportError(
                        f"term {term_number} offset {offset}: frame_length={length}, from {HEADER_LENGTH} to "
                        f"{end - offset}: the file is damaged or no log of this layout"
                    )
                taken = 0 if kind == 0 else min(length - HEADER_LENGTH, payload_bytes_max)
                start = base + offset + HEADER_LENGTH
                yield FrameLine(
                    term_number,
                    offset,
                    length,
                    flags,
                    TYPES.get(kind, str(kind)),
                    term_offset,
                    session,
                    stream,
                    term,
                    reserved,
                    bytes(view[start : start + taken]),
                )
                offset += (length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

    @staticmethod
    def _first_frame(view: memoryview, base: int, end: int) -> int:
        """Return the offset of the first frame that begins a term or follows a hole; the end when there is none."""
        offset = 0
        while offset < end:
            if offset % _STEP == 0 and _is_zero(view[base + offset : base + offset + _STEP]):
                offset += _STEP
                continue
            length, _, _, kind, term_offset = struct.unpack_from("<iBBHi", view, base + offset)
            if length != 0 and (offset == 0 or (kind in TYPES and term_offset == offset)):
                return offset
            offset += ALIGNMENT
        return end


def _is_zero(part: memoryview) -> bool:
    return bytes(part).count(0) == len(part)
