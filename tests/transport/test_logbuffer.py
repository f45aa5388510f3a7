"""Log buffer files: layout, tails, cleaning (log-buffer.md §1, §2, §6)."""

import struct
from pathlib import Path
from typing import Any

import pytest

from ordo.runtime.errors import TransportError
from ordo.runtime.native.memory import FileMemoryProvider, HeapMemoryProvider, MemoryProvider
from ordo.transport.streams.logbuffer import (
    END_OF_STREAM_UNKNOWN,
    LOG_TYPE_CONCURRENT,
    LOG_TYPE_IMAGE,
    LogBuffers,
    create_log,
    log_length_bytes,
    open_log,
)

PATH = "/logs/77.logbuffer"


def make(provider: MemoryProvider, path: str = PATH, **changes: int) -> LogBuffers:
    arguments: dict[str, Any] = {
        "term_length": 65536,
        "mtu": 1408,
        "initial_term_id": 5,
        "session_id": -2,
        "stream_id": 1001,
        "correlation_id": 77,
        "log_type": LOG_TYPE_CONCURRENT,
    }
    return create_log(provider, path, **{**arguments, **changes})


def metadata(log: LogBuffers) -> bytes:
    with log.view() as view:
        return bytes(view[-4096:])


def test_length_is_three_terms_and_metadata_aligned_to_the_page() -> None:
    assert log_length_bytes(65536) == 3 * 65536 + 4096
    assert log_length_bytes(65536, 65536) == 4 * 65536
    log = make(HeapMemoryProvider(), page_size=65536)
    with log.view() as view:
        assert len(view) == 4 * 65536


def test_default_header_is_the_golden_one() -> None:
    assert make(HeapMemoryProvider()).default_header() == bytes.fromhex(
        "00000000 00c0 0100 00000000 feffffff e9030000 05000000 0000000000000000"
    )


def test_metadata_fields_are_where_the_format_says() -> None:
    log = make(
        HeapMemoryProvider(),
        mtu=4096,
        entity_tag=9,
        linger_timeout_ns=5,
        untethered_linger_timeout_ns=6,
        max_resend=16,
        signal_eos=1,
        publication_window_length=32768,
    )
    data = metadata(log)
    assert struct.unpack_from("<q", data, 128) == (END_OF_STREAM_UNKNOWN,)
    assert struct.unpack_from("<ii", data, 136) == (0, 0)
    assert struct.unpack_from("<qiiiiii", data, 256) == (77, 5, 32, 4096, 65536, 4096, 32768)
    assert struct.unpack_from("<i", data, 316) == (16,)
    assert struct.unpack_from("<q", data, 448) == (9,)
    assert struct.unpack_from("<q", data, 464) == (5,)
    assert data[492:494] == b"\x01\x01"
    assert data[497] == LOG_TYPE_CONCURRENT
    assert struct.unpack_from("<q", data, 500) == (6,)


def test_tails_of_a_fresh_publication() -> None:
    log = make(HeapMemoryProvider())
    assert log.tails() == [(5, 0), (3, 0), (4, 0)]
    assert (log.term_count, log.tail_position) == (0, 0)


@pytest.mark.parametrize("terms", range(5))
def test_tails_of_a_start_position(terms: int) -> None:
    log = make(HeapMemoryProvider(), term_id=5 + terms, term_offset=96)
    active = terms % 3
    assert log.tails()[active] == (5 + terms, 96)
    assert log.tails()[(active + 1) % 3] == (5 + terms - 2, 0)
    assert log.tails()[(active + 2) % 3] == (5 + terms - 1, 0)
    assert (log.term_count, log.tail_position) == (terms, terms * 65536 + 96)


def test_term_ids_wrap_at_32_bits() -> None:
    log = make(HeapMemoryProvider(), initial_term_id=2147483647, term_id=-2147483648)
    assert (log.term_count, log.tail_position) == (1, 65536)
    assert log.tails() == [(2147483647, 0), (-2147483648, 0), (2147483646, 0)]


def test_an_image_has_no_tails() -> None:
    log = make(HeapMemoryProvider(), log_type=LOG_TYPE_IMAGE, term_offset=64)
    assert metadata(log)[:28] == bytes(28)
    assert log.default_header()[8:12] == struct.pack("<i", 64)


def test_opened_log_has_the_same_parameters(tmp_path: Path) -> None:
    provider = FileMemoryProvider()
    path = str(tmp_path / "publications" / "77.logbuffer")
    created = make(provider, path, initial_term_id=-3)
    opened = open_log(provider, path)
    for log in (created, opened):
        assert (log.term_length, log.term_shift, log.mtu, log.initial_term_id) == (65536, 16, 1408, -3)
        assert (log.session_id, log.stream_id, log.correlation_id, log.path) == (-2, 1001, 77, path)
    created.connected = True
    created.eos_position = 4096
    created.revoke()
    assert opened.connected
    assert opened.eos_position == 4096
    assert opened.revoked
    created.close()
    opened.close()


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (276, 65537, "term_length=65537"),
        (276, 131072, "needs"),
        (272, 1407, "mtu=1407"),
        (280, 100, "page_size=100"),
    ],
)
def test_a_file_that_is_no_log_buffer_is_refused(offset: int, value: int, message: str) -> None:
    provider = HeapMemoryProvider()
    log = make(provider)
    with log.view() as view:
        start = len(view) - 4096 + offset
        view[start : start + 4] = struct.pack("<i", value)
    with pytest.raises(TransportError, match=message):
        open_log(provider, PATH)


def test_a_short_file_is_refused() -> None:
    provider = HeapMemoryProvider()
    provider.create("/short", 100)
    with pytest.raises(TransportError, match="not a complete log buffer"):
        open_log(provider, "/short")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"term_length": 32768}, "term_length=32768"),
        ({"mtu": 65536}, "mtu=65536"),
        ({"term_offset": 33}, "term_offset=33"),
        ({"term_offset": 65568}, "term_offset=65568"),
        ({"lingering": 1}, "lingering"),
    ],
)
def test_bad_parameters_are_refused_before_a_file_is_made(changes: dict[str, Any], message: str) -> None:
    provider = HeapMemoryProvider()
    with pytest.raises(TransportError, match=message):
        make(provider, **changes)
    assert not provider.exists(PATH)


def test_cleaning_stops_at_the_end_of_a_term() -> None:
    log = make(HeapMemoryProvider())
    with log.view() as view:
        view[: 3 * 65536] = b"\xff" * (3 * 65536)
        assert log.clean_range(32, 96) == 96
        assert view[:128] == b"\xff" * 32 + bytes(64) + b"\xff" * 32
        assert log.clean_range(65536 + 64, 10 * 65536) == 2 * 65536
        assert view[65536 + 64 : 2 * 65536] == bytes(65536 - 64)
        assert view[2 * 65536] == 0xFF
        assert log.clean_range(4 * 65536, 4 * 65536) == 4 * 65536
        assert view[65536] == 0xFF


def test_memory_can_be_closed_by_somebody_else() -> None:
    log = make(HeapMemoryProvider())
    path = log.path
    memory = log.detach()
    assert not memory.closed and memory.path == path
    assert log.term_count == 0 and log.path == path
    log.close()
    assert not memory.closed
    memory.close()
    assert log.detach().closed


def test_metadata_stays_readable_after_close() -> None:
    log = make(HeapMemoryProvider())
    log.eos_position = 640
    log.close()
    log.close()
    assert (log.eos_position, log.tail_position) == (640, 0)


def test_constructor_needs_memory() -> None:
    with pytest.raises(TypeError):
        LogBuffers(None)  # type: ignore[arg-type]
