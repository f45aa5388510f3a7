"""Snapshot streams: bytes and messages come back as they were written."""

import io
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.runtime.errors import SnapshotError
from ordo.service_api.snapshot import CHUNK_BYTES, SnapshotReader, SnapshotWriter


def make_writer(message_bytes_max: int = 1 << 20) -> tuple[SnapshotWriter, list[bytes]]:
    messages: list[bytes] = []
    return SnapshotWriter(messages.append, message_bytes_max), messages


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(1, 200), st.integers(1, 70))
def test_bytes_come_back_whatever_the_pieces(pieces: list[bytes], message_bytes_max: int, read_size: int) -> None:
    writer, messages = make_writer(message_bytes_max)
    for piece in pieces:
        assert writer.write(piece) == len(piece)
    writer.close()
    reader = SnapshotReader(messages)
    parts = []
    while part := reader.read(read_size):
        parts.append(part)
    assert b"".join(parts) == b"".join(pieces)
    assert all(len(part) == read_size for part in parts[:-1])
    assert all(0 < len(message) <= message_bytes_max for message in messages)


@given(st.lists(st.binary(min_size=1, max_size=100), max_size=20))
def test_messages_come_back_whole(expected: list[bytes]) -> None:
    writer, messages = make_writer()
    for message in expected:
        writer.write_message(message)
    writer.close()
    assert list(SnapshotReader(messages)) == expected


def test_bytes_and_messages_mix_in_order() -> None:
    writer, messages = make_writer()
    writer.write(b"head")
    writer.write_message(b"one")
    writer.write(b"tail")
    writer.close()
    reader = SnapshotReader(messages)
    assert reader.read(2) == b"he"
    assert list(reader.messages()) == [b"ad", b"one", b"tail"]
    assert writer.written_bytes == 11


def test_pickle_and_lines_read_like_a_file() -> None:
    state = {"orders": list(range(50_000)), "name": "x" * (3 * CHUNK_BYTES)}
    writer, messages = make_writer()
    pickle.dump(state, writer)
    writer.write(json.dumps([1, 2]).encode() + b"\nrest")
    writer.close()
    reader = SnapshotReader(messages)
    assert pickle.load(reader) == state
    assert json.loads(reader.readline()) == [1, 2]
    assert reader.readline() == b"rest"
    assert reader.readline() == b""


@given(st.lists(st.binary(min_size=1, max_size=9).map(lambda b: b.replace(b"\x00", b"\n")), max_size=12))
def test_readline_splits_where_a_file_would(messages: list[bytes]) -> None:
    reader = SnapshotReader(messages)
    lines = []
    while line := reader.readline():
        lines.append(line)
    assert lines == io.BytesIO(b"".join(messages)).readlines()


def test_a_short_snapshot_is_an_error_not_zeros() -> None:
    with pytest.raises(SnapshotError, match="ends after 3 bytes of the 4"):
        SnapshotReader([b"abc"]).read_exactly(4)


@pytest.mark.parametrize("message", [b"", b"x" * 11])
def test_write_message_refuses_what_does_not_fit(message: bytes) -> None:
    writer, messages = make_writer(10)
    with pytest.raises(SnapshotError, match="1 to 10 are allowed"):
        writer.write_message(message)
    assert messages == []


def test_nothing_can_be_written_after_the_callback() -> None:
    writer, _ = make_writer()
    writer.close()
    with pytest.raises(SnapshotError, match="complete"):
        writer.write(b"x")
