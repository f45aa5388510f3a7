"""Atomics, unaligned fields, futex, clocks and CRC32C."""

import threading
import time

import pytest

from runtime.memory import allocate
from tests.runtime import atomics_probe as probe


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c_of_rfc_3720(data: bytes, expected: int) -> None:
    assert probe.crc32c(data) == expected


def test_crc32c_goes_on_where_it_stopped() -> None:
    data = bytes(range(100))
    for cut in range(101):
        assert probe.crc32c(data[cut:], probe.crc32c(data[:cut])) == probe.crc32c(data)


def test_unaligned_little_endian_fields() -> None:
    memory = allocate(16)
    probe.put_fields(memory, 0xFFFE, -2, -3)
    assert bytes(memory)[1:15].hex() == "feff" + "feffffff" + "fdffffffffffffff"
    assert probe.get_fields(memory) == (0xFFFE, -2, -2, -3)


def test_additions_of_two_threads_are_not_lost() -> None:
    memory = allocate(16)
    threads = [threading.Thread(target=probe.add_many, args=(memory, 100_000)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raw = bytes(memory)
    assert int.from_bytes(raw[:8], "little") == int.from_bytes(raw[8:12], "little") == 200_000


def test_futex_returns_at_once_when_the_word_differs_and_when_time_is_up() -> None:
    memory = allocate(8)
    probe.futex_wait(memory, 1, 60_000_000_000)
    probe.futex_wait(memory, 0, 1_000_000)
    assert probe.futex_wake(memory) == 0


def test_clocks_are_those_of_the_system() -> None:
    monotonic_ns, epoch_ns = probe.clocks()
    assert 0 <= time.monotonic_ns() - monotonic_ns < 10**9
    assert 0 <= time.time_ns() - epoch_ns < 10**9
