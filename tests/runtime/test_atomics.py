"""Atomics, unaligned fields, futex and clocks."""

import threading
import time

from ordo.runtime.native.memory import allocate
from tests.runtime import atomics_probe as probe


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
