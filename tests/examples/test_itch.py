"""The ITCH parser against real and artificial feeds, and damaged ones."""

import gzip
import struct
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ordo.cli import run
from ordo.matching.itch import (
    CHUNK_BYTES,
    END_OF_SESSION,
    LAYOUTS,
    AddOrder,
    DirectListing,
    StockDirectory,
    SystemEvent,
    read_itch,
    read_itch_file,
)
from ordo.runtime.errors import ConfigurationError, DecodeError

LENGTHS = {
    "S": 12, "R": 39, "H": 25, "Y": 20, "L": 26, "V": 35, "W": 12, "K": 28, "J": 35, "h": 21, "A": 36, "F": 40, "E": 31,
    "C": 36, "X": 23, "D": 19, "U": 35, "P": 44, "Q": 40, "B": 19, "I": 50, "N": 20, "O": 48,
}  # fmt: skip


def framed(message: bytes, length_bytes: int | None = None) -> bytes:
    return struct.pack(">H", len(message) if length_bytes is None else length_bytes) + message


def test_every_type_has_the_length_of_the_specification() -> None:
    assert {letter: length for letter, (length, _) in LAYOUTS.items()} == LENGTHS


def test_each_layout_fills_its_tuple() -> None:
    for letter, length_bytes in LENGTHS.items():
        body = letter.encode() + bytes(range(1, length_bytes))
        (message,) = read_itch(framed(body))
        assert message.locate == 0x0102
        assert message.tracking == 0x0304
        assert message.timestamp_ns == 0x05060708090A


def test_fields_are_where_they_belong() -> None:
    add = struct.pack(">cHHHIQcI8sI", b"A", 13, 7, 1, 2, 99, b"S", 300, b"AAPL    ", 3214500)
    system = struct.pack(">cHHHIc", b"S", 0, 0, 0, 5, b"O")
    with_name = b"F" + add[1:] + b"GSCO"
    assert list(read_itch(framed(add) + framed(system) + framed(with_name))) == [
        AddOrder(13, 7, (1 << 32) + 2, 99, b"S", 300, b"AAPL    ", 3214500),
        SystemEvent(0, 0, 5, b"O"),
        AddOrder(13, 7, (1 << 32) + 2, 99, b"S", 300, b"AAPL    ", 3214500, b"GSCO"),
    ]


def test_the_last_field_of_long_messages() -> None:
    directory = b"R" + bytes(37) + b"N"
    listing = b"O" + bytes(43) + struct.pack(">I", 77)
    first, second = read_itch(framed(directory) + framed(listing))
    assert isinstance(first, StockDirectory)
    assert first.inverse == b"N"
    assert isinstance(second, DirectListing)
    assert second.upper_price == 77


def test_real_feed(aapl_feed: Path) -> None:
    counts = Counter(type(message).__name__ for message in read_itch_file(aapl_feed))
    assert counts == {
        "AddOrder": 4760, "OrderExecuted": 849, "OrderCancel": 6, "OrderDelete": 4083, "OrderReplace": 7, "Trade": 240,
        "StockDirectory": 1, "TradingAction": 1, "RegShoRestriction": 1, "ParticipantPosition": 52,
    }  # fmt: skip


def test_feed_without_lengths(ritch_feed: Path) -> None:
    messages: list[Any] = list(read_itch_file(ritch_feed))
    assert gzip.decompress(ritch_feed.read_bytes())[:2] == b"\0\0"
    assert Counter(type(message).__name__ for message in messages) == {
        "SystemEvent": 6, "StockDirectory": 3, "TradingAction": 3, "AddOrder": 5000, "OrderExecuted": 198,
        "OrderCancel": 45, "OrderDelete": 1745, "OrderReplace": 12, "Trade": 5000,
    }  # fmt: skip
    assert sum(isinstance(message, AddOrder) and message.attribution != b"" for message in messages) == 3


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\0", "ends inside a message at offset 0"),
        (framed(b"D" + bytes(18)) + framed(b"D" + bytes(18))[:-1], "ends inside a message at offset 21"),
        (framed(b"?" + bytes(18)), "unknown message type '?' at offset 0"),
        (framed(b"D" + bytes(18), 20), "length=20 of type 'D', expected 19 at offset 0"),
    ],
)
def test_damaged_feeds_are_refused_with_their_offset(data: bytes, what: str) -> None:
    with pytest.raises(DecodeError, match=what.replace("?", r"\?")):
        list(read_itch(data))


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read ITCH file .*absent\.bin: No such file"):
        read_itch_file(tmp_path / "absent.bin")


def test_a_length_of_zero_ends_a_session() -> None:
    system = b"S" + bytes(11)
    one = framed(system, len(system))
    assert len(list(read_itch(one + END_OF_SESSION))) == 1
    assert len(list(read_itch(one + END_OF_SESSION + one + END_OF_SESSION))) == 2, "another day behind it"
    assert len(list(read_itch(framed(system, 0) * 3 + END_OF_SESSION))) == 3, "of a file without lengths, too"
    assert list(read_itch(END_OF_SESSION)) == []
    with pytest.raises(DecodeError, match="ends inside a message at offset 14"):
        list(read_itch(one + b"\0"))


@pytest.mark.parametrize("cut", [1, 8, 1000])
def test_a_gz_that_is_cut_is_one_clear_line(cut: int, ritch_feed: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(ritch_feed.read_bytes()[:-cut])
    with pytest.raises(DecodeError, match=r"cut\.gz is no whole \.gz file"):
        list(read_itch_file(path))


def test_a_gz_that_is_none_or_damaged_is_one_clear_line(ritch_feed: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.gz"
    path.write_bytes(b"text")
    with pytest.raises(DecodeError, match=r"bad\.gz is no whole \.gz file"):
        list(read_itch_file(path))
    damaged = bytearray(ritch_feed.read_bytes())
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    path.write_bytes(damaged)
    with pytest.raises(DecodeError):
        list(read_itch_file(path))


def test_the_demo_says_so_and_starts_nothing(
    ritch_feed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(ritch_feed.read_bytes()[:-100])
    assert run(["demo", "--itch", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"ordo: {path} is no whole .gz file") and captured.err.count("\n") == 1
    assert "three nodes" not in captured.out


@pytest.mark.parametrize("name", ["day.bin", "day.bin.gz"])
def test_a_day_goes_through_little_memory_and_its_progress_is_told(name: str, tmp_path: Path) -> None:
    """All messages of every chunk's boundary are there, and no more than a few chunks are held."""
    record = framed(b"D" + bytes(18), 19)
    count = 16 * CHUNK_BYTES // len(record)
    path, told = tmp_path / name, list[int]()
    content = record * count + END_OF_SESSION
    path.write_bytes(gzip.compress(content, 1) if name.endswith(".gz") else content)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_itch_file(path, told.append)) == count
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5 * CHUNK_BYTES
    assert told == sorted(told) and told[-1] == path.stat().st_size
