"""The memory behind record batches: used again, but never while anybody looks at it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ordo.pipeline.decoding.batches import COLUMN_NAMES, BatchBuilder
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.decoder import RecordDecoder, RowSelection
from ordo.pipeline.generate import RecordingBuilder, session_message, timer_event


@pytest.fixture
def recording(tmp_path: Path) -> RecordingBuilder:
    """300 records: messages of random lengths, and timers, which have no session."""
    chance = random.Random(5)
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for number in range(300):
            if chance.random() < 0.3:
                builder.append(timer_event(2, number, 1000 + number))
            else:
                builder.append(session_message(2, number, 1000 + number, bytes([number & 255]) * chance.randrange(90)))
    return builder


def decoder_of(recording: RecordingBuilder, batch_rows: int, columns: tuple[str, ...] = COLUMN_NAMES) -> RecordDecoder:
    entry = recording.descriptor
    cursor = MessageCursor(f"{recording.directory}/0-0.rec", entry, 0, 0, entry.stop_position)
    return RecordDecoder(cursor, RowSelection(), BatchBuilder(columns, 0, "node0", 0, batch_rows, 1 << 16), True)


def batches_of(decoder: RecordDecoder) -> list[pa.RecordBatch]:
    found = []
    while (batch := decoder.next_batch()) is not None:
        found.append(batch)
    return found


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def test_batches_that_are_held_are_not_written_over(recording: RecordingBuilder) -> None:
    """Only one column of each batch is kept: the memory is that of the whole batch."""
    whole = rows_of(batches_of(decoder_of(recording, 1000)))
    assert len(whole) == 300 and len({row["session_id"] for row in whole}) > 100
    decoder, held = decoder_of(recording, 7), []
    while (batch := decoder.next_batch()) is not None:
        held.append((batch["payload"], batch["session_id"].slice(1)))
    del batch
    assert [value for payload, _ in held for value in payload.to_pylist()] == [row["payload"] for row in whole]
    sessions = [row["session_id"] for row in whole]
    assert [value for _, part in held for value in part.to_pylist()] == [
        session for row, session in enumerate(sessions) if row % 7
    ]


def test_memory_that_nobody_holds_is_used_again(recording: RecordingBuilder) -> None:
    """The memory may be used again by another decoder, with other columns and nulls than before."""
    whole = rows_of(batches_of(decoder_of(recording, 1000)))
    for columns in (COLUMN_NAMES, ("session_id", "kind", "payload")):
        decoder, row, places = decoder_of(recording, 7, columns), 0, set()
        while (batch := decoder.next_batch()) is not None:
            batch.validate(full=True)
            expected = whole[row : row + batch.num_rows]
            assert batch.to_pylist() == [{name: one[name] for name in columns} for one in expected]
            places.add(batch["payload"].buffers()[1].address)
            row += batch.num_rows
            del batch
        assert row == 300
        assert len(places) <= 3


def test_columns_with_one_value_need_no_memory(recording: RecordingBuilder) -> None:
    """A source of the column `node` alone once asked for no bytes at all."""
    batches = batches_of(decoder_of(recording, 64, ("node", "recording")))
    assert rows_of(batches) == [{"node": "node0", "recording": 0}] * 300


def test_slices_and_streams_of_a_batch_hold_what_the_batch_held(recording: RecordingBuilder) -> None:
    batches = batches_of(decoder_of(recording, 64))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch.slice(3, batch.num_rows - 4))
    read = pa.ipc.open_stream(sink.getvalue()).read_all()
    assert read.to_pylist() == rows_of([batch.slice(3, batch.num_rows - 4) for batch in batches])
