"""The loss report file: one entry an image that lost something (cnc-and-driver-protocol.md §5.6).

```
 0                8           16          24          32         36        40
 +----------------+-----------+-----------+-----------+----------+---------+-----------------+----------------+
 | observations   | bytes     | first ms  | last ms   | session  | stream  | i32 + channel   | i32 + source   |
 +----------------+-----------+-----------+-----------+----------+---------+-----------------+----------------+
```
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ordo.runtime.native.clock import Clock
from ordo.runtime.native.memory import Memory
from ordo.transport.driver.flow.loss import add_release

FILE_NAME = "loss-report.dat"
ENTRY_ALIGNMENT = 64
_FIXED = 40
_FIELDS = struct.Struct("<qqqqii")


class LossEntry(NamedTuple):
    """The losses of one image as the loss report has them; times in ms since the epoch."""

    observation_count: int
    total_bytes_lost: int
    first_observation_ms: int
    last_observation_ms: int
    session_id: int
    stream_id: int
    channel: str
    source: str


class LossReport:
    """Writer of the report. A full report takes no further images."""

    def __init__(self, memory: Memory, clock: Clock) -> None:
        self._memory = memory
        self._clock = clock
        self._next_offset = 0
        self._offsets: dict[int, int] = {}

    def record(self, image: Any, length: int) -> None:
        """Record a gap of `length` bytes that was found in an image."""
        offset = self._offsets.get(image.correlation_id)
        now_ms = self._clock.epoch_ms()
        if offset is None:
            self._create(image, length, now_ms)
            return
        add_release(self._memory, offset + 24, now_ms, replace=True)
        add_release(self._memory, offset + 8, length)
        add_release(self._memory, offset, 1)

    def _create(self, image: Any, length: int, now_ms: int) -> None:
        channel = image.channel.encode("ascii", "replace")
        source = image.source_identity.encode("ascii", "replace")
        source_offset = _FIXED + _align(4 + len(channel), 4)
        entry_length = _align(source_offset + 4 + len(source), ENTRY_ALIGNMENT)
        if self._next_offset + entry_length > len(self._memory):
            return
        offset = self._next_offset
        with memoryview(self._memory) as view:
            _FIELDS.pack_into(view, offset, 0, length, now_ms, now_ms, image.session_id, image.stream_id)
            struct.pack_into("<i", view, offset + _FIXED, len(channel))
            view[offset + _FIXED + 4 : offset + _FIXED + 4 + len(channel)] = channel
            struct.pack_into("<i", view, offset + source_offset, len(source))
            view[offset + source_offset + 4 : offset + source_offset + 4 + len(source)] = source
        add_release(self._memory, offset, 1)
        self._offsets[image.correlation_id] = offset
        self._next_offset += entry_length


def read_losses(memory: Memory) -> list[LossEntry]:
    """Return the entries of a report, in the order of their first loss."""
    entries = []
    with memoryview(memory) as view:
        offset = 0
        while offset + _FIXED + 8 <= len(view):
            fields = _FIELDS.unpack_from(view, offset)
            if fields[0] == 0:
                break
            channel, end = _text(view, offset + _FIXED)
            source, end = _text(view, offset + _FIXED + _align(4 + len(channel), 4))
            entries.append(LossEntry._make((*fields, channel, source)))
            offset += _align(end - offset, ENTRY_ALIGNMENT)
    return entries


def _text(view: memoryview, offset: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<i", view, offset)
    end = offset + 4 + max(0, min(length, len(view) - offset - 4))
    return bytes(view[offset + 4 : end]).decode("ascii", "replace"), end


def _align(value: int, alignment: int) -> int:
    return (value + alignment - 1) // alignment * alignment
