"""Segment bytes into Arrow batches, without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.cluster.wire import ordo_codecs
from ordo.follow.entries import EntryKind
from ordo.pipeline.decoding.batches import COLUMN_NAMES, KIND_NAMES, BatchBuilder
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.decoder import RecordDecoder, RowSelection
from ordo.pipeline.decoding.errors import CorruptRecordingError
from ordo.pipeline.generate import (
    RecordingBuilder,
    cluster_action,
    new_term,
    session_close,
    session_message,
    session_open,
    timer_event,
)

TIME = 1_700_000_000_123


def read(path: str, entry: RecordingDescriptor, columns: tuple[str, ...] = COLUMN_NAMES, **kept: Any) -> pa.Table:
    cursor = MessageCursor(path, entry, 0, 0, entry.stop_position)
    builder = BatchBuilder(columns, entry.recording_id, "node0", 0)
    decoder = RecordDecoder(cursor, RowSelection(**kept), builder, entry.stream_id == 100)
    batches = []
    while (batch := decoder.next_batch()) is not None:
        batch.validate(full=True)
        batches.append(batch)
    return pa.Table.from_batches(batches) if batches else pa.table({})


def log_path(builder: RecordingBuilder) -> str:
    return os.path.join(builder.directory, "0-0.rec")


@pytest.fixture
def every_kind(tmp_path: Path) -> RecordingBuilder:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        builder.append(new_term(3, 0, TIME, 1, 55))
        builder.append(session_open(3, 77, 9, TIME + 1, b"aeron:udp", b"me"))
        builder.append(session_message(3, 9, TIME + 2, b"hello"))
        builder.append(session_message(3, -5, TIME + 3, b""))
        builder.append(timer_event(3, 88, TIME + 4))
        builder.append(cluster_action(3, builder.writer.position, TIME + 5, 2))
        builder.append(session_close(3, 9, TIME + 6, 1))
        builder.append(b"\x08\x00\x63\x00\x6f\x00\x11\x00" + bytes(24))
    return builder


def test_every_kind_of_record_has_its_columns(every_kind: RecordingBuilder) -> None:
    rows = read(log_path(every_kind), every_kind.descriptor).to_pylist()
    assert [row["kind"] for row in rows] == [
        "new_term", "session_open", "message", "message", "timer", "cluster_action", "session_close", "other",
    ]  # fmt: skip
    assert [row["session_id"] for row in rows] == [None, 9, 9, -5, None, None, 9, None]
    assert [row["correlation_id"] for row in rows] == [None, 77, None, None, 88, None, None, None]
    assert [row["leadership_term"] for row in rows] == [3] * 7 + [None]
    assert [row["cluster_time"] for row in rows] == [TIME + offset for offset in range(7)] + [None]
    assert rows[2]["payload"] == b"hello" and rows[3]["payload"] == b""
    assert rows[2]["payload_length"] == 5
    assert rows[2]["timestamp"].isoformat() == "2023-11-14T22:13:20.125000+00:00"
    assert [row["position"] for row in rows][:3] == [96, 192, 288]
    assert [row["start_position"] for row in rows][:3] == [0, 96, 192]
    assert {(row["recording"], row["node"]) for row in rows} == {(0, "node0")}


OWN_EVENTS = {
    "configuration": ordo_codecs.CONFIGURATION_EVENT, "skip": ordo_codecs.SKIP_EVENT,
    "version": ordo_codecs.VERSION_EVENT, "state_hash": ordo_codecs.STATE_HASH_EVENT, "level": ordo_codecs.LEVEL_EVENT,
    "cluster_identity": ordo_codecs.CLUSTER_IDENTITY_EVENT, "clock": ordo_codecs.CLOCK_EVENT,
}  # fmt: skip


def test_records_of_the_module_have_their_kind_term_and_time(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for message in OWN_EVENTS.values():
            builder.append(message.encode(leadership_term_id=3, timestamp=TIME))
    rows = read(log_path(builder), builder.descriptor).to_pylist()
    assert [row["kind"] for row in rows] == list(OWN_EVENTS)
    assert {(row["leadership_term"], row["cluster_time"], row["session_id"]) for row in rows} == {(3, TIME, None)}


def test_readers_of_the_log_call_the_kinds_the_same() -> None:
    """Outputs, differences and versions of applications are requests and commands, whose bytes a frame has whole."""
    of_entries = {kind.value for kind in EntryKind} - {"output", "difference", "app_version"}
    assert of_entries == set(KIND_NAMES) - {"membership", "data", "other"}


def test_only_columns_asked_for_are_built(every_kind: RecordingBuilder) -> None:
    table = read(log_path(every_kind), every_kind.descriptor, ("payload", "position"))
    assert table.column_names == ["payload", "position"]


@pytest.mark.parametrize(
    ("kept", "kinds"),
    [
        ({"kinds": ["timer", "new_term"]}, ["new_term", "timer"]),
        ({"sessions": [9]}, ["session_open", "message", "session_close"]),
        ({"sessions": []}, []),
        ({"time_min": 1000 * (TIME + 4), "time_max": 1000 * (TIME + 5)}, ["timer", "cluster_action"]),
        ({"position_min": 97, "position_max": 288}, ["session_open", "message"]),
    ],
)
def test_rows_are_selected_natively(every_kind: RecordingBuilder, kept: dict[str, object], kinds: list[str]) -> None:
    table = read(log_path(every_kind), every_kind.descriptor, ("kind",), **kept)
    assert table.to_pydict().get("kind", []) == kinds


def test_fragmented_messages_are_put_together(tmp_path: Path) -> None:
    payloads = [bytes([index]) * length for index, length in enumerate([10, 1343, 1344, 1345, 5000, 100_000, 3])]
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for payload in payloads:
            builder.append(session_message(0, 1, TIME, payload))
    table = read(log_path(builder), builder.descriptor)
    assert table["payload"].to_pylist() == payloads
    assert table["position"].to_pylist()[-1] == builder.descriptor.stop_position


def test_padding_is_passed_over(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive"), term_length=1 << 16, segment_length=1 << 18) as builder:
        builder.append(session_message(0, 1, TIME, b"a"))
        builder.writer.append_padding(4096)
        for _ in range(20):
            builder.append(session_message(0, 1, TIME, b"b" * 8000))
    assert read(log_path(builder), builder.descriptor)["payload_length"].to_pylist() == [1] + [8000] * 20
    assert builder.descriptor.stop_position > 2 * (1 << 16)


def test_a_recording_that_is_no_log_keeps_whole_messages(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive"), stream_id=1001) as builder:
        builder.append(b"plain")
    assert read(log_path(builder), builder.descriptor).select(["kind", "payload", "session_id"]).to_pylist() == [
        {"kind": "data", "payload": b"plain", "session_id": None}
    ]


def test_a_message_larger_than_a_batch_comes_alone(tmp_path: Path) -> None:
    """The bytes of a batch are those of its payloads; without them only the rows are counted."""
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for length in (10, 60_000, 10):
            builder.append(session_message(0, 1, TIME, b"x" * length))

    def sizes(*columns: str) -> list[list[int]]:
        cursor = MessageCursor(log_path(builder), builder.descriptor, 0, 0, builder.descriptor.stop_position)
        decoder = RecordDecoder(cursor, RowSelection(), BatchBuilder(columns, 0, "n", 0, 100, 1024), True)
        found = []
        while (batch := decoder.next_batch()) is not None:
            found.append(batch["payload_length"].to_pylist())
        return found

    assert sizes("payload_length", "payload") == [[10], [60_000], [10]]
    assert sizes("payload_length") == [[10, 60_000, 10]]


@pytest.mark.parametrize("offset", range(256))
def test_a_flipped_byte_is_found_at_its_frame(tmp_path: Path, offset: int) -> None:
    """Every byte of two frames but the reserved value and, of the first, what cannot be told from a shorter message."""
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        builder.append(session_message(0, 1, TIME, b"x" * 60))
        builder.append(session_message(0, 1, TIME, b"y" * 60))
    path = log_path(builder)
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0xFF]))
    if 24 <= offset % 128 < 32:
        assert read(path, builder.descriptor).num_rows == 2
        return
    with pytest.raises(CorruptRecordingError) as caught:
        read(path, builder.descriptor)
    assert caught.value.position == offset // 128 * 128


def test_rows_before_the_damage_are_delivered(tmp_path: Path) -> None:
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for _ in range(3):
            builder.append(session_message(0, 1, TIME, b"x" * 60))
    with open(log_path(builder), "r+b") as file:
        file.truncate(300)
    cursor = MessageCursor(log_path(builder), builder.descriptor, 0, 0, builder.descriptor.stop_position)
    decoder = RecordDecoder(cursor, RowSelection(), BatchBuilder(("position",), 0, "n", 0), True)
    first = decoder.next_batch()
    assert first is not None and first["position"].to_pylist() == [128, 256]
    with pytest.raises(CorruptRecordingError, match=r"position=256.*the segment file ends inside the frame|fault=the"):
        decoder.next_batch()


def test_nanoseconds_and_microseconds_become_timestamps(every_kind: RecordingBuilder) -> None:
    entry = every_kind.descriptor
    seen = []
    for unit in (1, 2):
        cursor = MessageCursor(log_path(every_kind), entry, 0, 0, entry.stop_position)
        batches = BatchBuilder(("timestamp",), 0, "n", unit)
        decoder = RecordDecoder(cursor, RowSelection(kinds=["timer"]), batches, True)
        batch = decoder.next_batch()
        assert batch is not None
        seen.append(batch["timestamp"].cast(pa.int64()).to_pylist())
    assert seen == [[TIME + 4], [(TIME + 4) // 1000]]
