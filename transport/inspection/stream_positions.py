"""The streams of a driver and every party's position in them.

They are read from the counters that every driver of the layout keeps.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ordo.runtime.native.counters import CounterDescriptor

PUBLISHER_LIMIT, SENDER_POSITION, RECEIVER_HIGH_WATER, SUBSCRIBER_POSITION, RECEIVER_POSITION = 1, 2, 3, 4, 5
SENDER_LIMIT, PUBLISHER_POSITION = 9, 12
_EVENTS = (13, 17, 19, 20)
STREAM_TYPES = frozenset(range(1, 6)) | {SENDER_LIMIT, PUBLISHER_POSITION, *_EVENTS}
"""Counters whose key contains stream and session (cnc-and-driver-protocol.md §5.3)."""
_KEY = struct.Struct("<qiii")
UNKNOWN = -1


class StreamCounter(NamedTuple):
    """One counter of a stream; `name` is the start of its label, as `snd-pos`."""

    stream_id: int
    session_id: int
    type_id: int
    name: str
    registration_id: int
    reference_id: int
    value: int
    channel: str


class Backlog(NamedTuple):
    """The position of one party of a stream.

    `behind_bytes` behind what is available to it, `room_bytes` until it has to stop.

    UNKNOWN where a driver does not say.
    """

    stream_id: int
    session_id: int
    party: str
    registration_id: int
    position: int
    behind_bytes: int
    room_bytes: int
    channel: str


def stream_counters(counters: Iterable[CounterDescriptor]) -> list[StreamCounter]:
    """Return the counters that belong to streams, by stream and session; all others are passed over."""
    found = []
    for one in counters:
        if one.type_id not in STREAM_TYPES or len(one.key) < _KEY.size:
            continue
        registration_id, session_id, stream_id, length = _KEY.unpack_from(one.key)
        channel = one.key[_KEY.size : _KEY.size + max(0, length)].decode("ascii", "replace")
        name = one.label.partition(":")[0]
        found.append(
            StreamCounter(
                stream_id, session_id, one.type_id, name, registration_id, one.reference_id, one.value, channel
            )
        )
    return sorted(found, key=lambda one: (one.stream_id, one.session_id, one.registration_id, one.type_id))


def backlogs(counters: Iterable[StreamCounter]) -> list[Backlog]:
    """Return every publisher, sender, receiver and subscriber.

    Positions are read one by one, so they may be off by what flows meanwhile.
    """
    streams: dict[tuple[int, int], list[StreamCounter]] = defaultdict(list)
    for one in counters:
        streams[one.stream_id, one.session_id].append(one)
    return [backlog for members in streams.values() for backlog in _backlogs_of(members)]


def _backlogs_of(members: list[StreamCounter]) -> list[Backlog]:
    values = {(one.registration_id, one.type_id): one.value for one in members}
    found = []
    for one in members:

        def of_same(type_id: int, key: int = one.registration_id) -> int:
            return values.get((key, type_id), UNKNOWN)

        if one.type_id == PUBLISHER_POSITION:
            found.append(_backlog(one, "publisher", UNKNOWN, of_same(PUBLISHER_LIMIT)))
        elif one.type_id == SENDER_POSITION:
            found.append(_backlog(one, "sender", of_same(PUBLISHER_POSITION), of_same(SENDER_LIMIT)))
        elif one.type_id == RECEIVER_POSITION:
            found.append(_backlog(one, "receiver", of_same(RECEIVER_HIGH_WATER), UNKNOWN))
        elif one.type_id == SUBSCRIBER_POSITION:
            found.append(_backlog(one, "subscriber", _end_for(one, members), UNKNOWN))
    return found


def _end_for(subscriber: StreamCounter, members: list[StreamCounter]) -> int:
    """Return how far the stream is available to a subscriber.

    In its own image or publication, where the driver names that.
    """
    ends = [one for one in members if one.type_id in (RECEIVER_HIGH_WATER, PUBLISHER_POSITION)]
    own = [one.value for one in ends if one.registration_id == subscriber.reference_id]
    same_channel = [one.value for one in ends if one.channel == subscriber.channel]
    return max(own or same_channel or [UNKNOWN])


def _backlog(one: StreamCounter, party: str, end: int, limit: int) -> Backlog:
    return Backlog(
        one.stream_id,
        one.session_id,
        party,
        one.registration_id,
        one.value,
        UNKNOWN if end == UNKNOWN else max(0, end - one.value),
        UNKNOWN if limit == UNKNOWN else max(0, limit - one.value),
        one.channel,
    )
