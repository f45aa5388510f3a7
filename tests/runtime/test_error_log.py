"""The distinct error log: cnc-and-driver-protocol.md §5.5."""

import struct

from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.counters import local_counter
from ordo.runtime.native.error_log import DistinctErrorLog, read_errors
from ordo.runtime.native.memory import allocate

TEXT_LENGTH_MAX = 16_384


def test_layout_of_a_record() -> None:
    memory, clock = allocate(256), VirtualClock(5_000_000, 0)
    log = DistinctErrorLog(memory, clock)
    assert log.record("first")
    clock.advance(2_000_000)
    assert log.record("second one")
    assert log.record("first")

    raw = bytes(memory)
    assert struct.unpack_from("<iiqq", raw) == (29, 2, 7, 5)
    assert raw[24:29] == b"first"
    assert struct.unpack_from("<iiqq", raw, 32) == (34, 1, 7, 7)
    assert raw[56:66] == b"second one"
    assert struct.unpack_from("<i", raw, 72) == (0,)


def raise_and_catch() -> Exception:
    try:
        raise ValueError("bad thing")
    except ValueError as error:
        return error


def test_the_same_exception_is_counted_and_not_written_again() -> None:
    memory, counter = allocate(4096), local_counter()
    log = DistinctErrorLog(memory, VirtualClock(0, 0), counter)
    for _ in range(3):
        log.record(raise_and_catch())
    log.record(KeyError("other"))
    errors = read_errors(memory)
    assert [error.observation_count for error in errors] == [3, 1]
    assert "ValueError: bad thing" in errors[0].text
    assert counter.value == 4


def test_full_log_answers_false_and_stays_readable() -> None:
    memory = allocate(64)
    log = DistinctErrorLog(memory, VirtualClock())
    assert log.record("a" * 40)
    assert not log.record("b")
    assert log.record("a" * 40)
    assert [error.observation_count for error in read_errors(memory)] == [2]


def test_a_new_writer_goes_on_behind_what_is_there() -> None:
    memory, clock = allocate(256), VirtualClock(0, 0)
    DistinctErrorLog(memory, clock).record("first")
    clock.advance(9_000_000)
    again = DistinctErrorLog(memory, clock)
    again.record("first")
    again.record("second")
    assert [(error.observation_count, error.text) for error in read_errors(memory)] == [(2, "first"), (1, "second")]
    assert len(read_errors(memory, since_ms=10)) == 0


def test_reader_stops_at_a_length_outside_the_memory() -> None:
    memory = allocate(64)
    with memoryview(memory) as view:
        view[0:4] = struct.pack("<i", 65)
    assert read_errors(memory) == []


def test_a_text_that_utf_8_cannot_hold_is_kept_escaped() -> None:
    memory = allocate(256)
    log = DistinctErrorLog(memory, VirtualClock())
    assert log.record("no account \ud800") and log.record(r"no account \ud800")
    assert [(error.observation_count, error.text) for error in read_errors(memory)] == [(2, r"no account \ud800")]


def test_a_new_writer_goes_on_behind_a_text_that_was_cut_within_a_character() -> None:
    memory = allocate(65_536)
    text = "a" * (TEXT_LENGTH_MAX - 1) + "é" * 9
    DistinctErrorLog(memory, VirtualClock()).record(text)
    again = DistinctErrorLog(memory, VirtualClock())
    assert again.record(text) and again.record("second")
    first, second = read_errors(memory)
    assert (first.observation_count, len(first.text), second.text) == (2, TEXT_LENGTH_MAX, "second")
