"""The archive's counters of recordings, which tell publishers how far their recording has come."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire.counters.counter_types import CounterType

if TYPE_CHECKING:
    from ordo.runtime.native.counters import CountersReader

_KEY = struct.Struct("<qi")


class RecordingCounter(NamedTuple):
    """Its value is the durable position of the recording, in bytes."""

    recording_id: int
    session_id: int
    counter_id: int


def recording_counters(counters: CountersReader) -> Iterator[RecordingCounter]:
    """Return those of all recordings that are written now."""
    for counter_id in counters.find_all(CounterType.RECORDING_POSITION):
        counter = counters.describe(counter_id)
        if counter is not None:
            recording_id, session_id = _KEY.unpack_from(counter.key)
            yield RecordingCounter(recording_id, session_id, counter_id)
