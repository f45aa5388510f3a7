"""An archive as a node of the exchange demo would have it: the order flow of the ITCH file, with service snapshots."""

from __future__ import annotations

import struct
from pathlib import Path

from ordo.matching.itch import read_itch_file
from ordo.matching.itch_feed import ItchFeed
from ordo.matching.service import MatchingEngine
from ordo.pipeline.generate import (
    RecordingBuilder,
    cluster_action,
    encode_record,
    new_term,
    session_message,
    session_open,
    var_data,
)
from ordo.service_api.testing.harness import Message, OpenSession, ServiceHarness

SESSION_ID = 1
TIME = 1_580_368_020_000


class FewerShares(MatchingEngine):
    """The engine with one rule changed: an order of exactly 300 shares is taken for 299."""

    def on_session_message(self, session, timestamp, payload, header):  # type: ignore[no-untyped-def]
        if payload[0] == 1 and payload[24:28] == struct.pack("<I", 300):
            payload = payload[:24] + struct.pack("<I", 299) + payload[28:]
        super().on_session_message(session, timestamp, payload, header)


def marker(mark: int, position: int) -> bytes:
    return encode_record(100, struct.pack("<qqqiiii", 2, position, 0, 0, mark, 0, 1))


def write_snapshot(directory: str, harness: ServiceHarness, position: int) -> None:
    """What the container records for a service's state (cluster-consensus.md §16.3)."""
    with RecordingBuilder(directory, stream_id=106) as builder:
        builder.append(marker(0, position))
        builder.append(encode_record(102, struct.pack("<qi", SESSION_ID, 102), var_data(b"c") + var_data(b"me")))
        builder.append(marker(2, position))
        for message in harness.take_snapshot().messages:
            builder.append(message)


def write_exchange(directory: str, itch: Path, snapshots_after: tuple[int, ...]) -> list[int]:
    """Positions of the snapshots, taken after so many requests."""
    requests = [entry.request for entry in ItchFeed(1).entries(read_itch_file(itch))]
    harness = ServiceHarness(MatchingEngine)
    harness.execute(OpenSession(SESSION_ID, TIME, b"me"))
    taken = []
    with RecordingBuilder(directory, segment_length=1 << 20, term_length=1 << 18) as builder:
        builder.append(new_term(0, 0, TIME, 0, 1))
        builder.append(session_open(0, 1, SESSION_ID, TIME, b"c", b"me"))
        for index, request in enumerate(requests, 1):
            builder.append(session_message(0, SESSION_ID, TIME + index * 10, request))
            harness.execute(Message(SESSION_ID, TIME + index * 10, request))
            if index in snapshots_after:
                position = builder.begin_position(96)
                taken.append(builder.append(cluster_action(0, position, TIME + index * 10, 2)))
                write_snapshot(directory, harness, taken[-1])
    return taken
