"""Counters in Aeron's layout: cnc-and-driver-protocol.md §5."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.runtime.errors import CountersFullError
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.counters import NULL_COUNTER_ID, CountersManager, CountersReader, local_counter
from ordo.runtime.native.memory import Memory, allocate


def make_manager(count: int = 4) -> tuple[CountersManager, Memory, Memory, VirtualClock]:
    metadata, values = allocate(count * 512), allocate(count * 128)
    clock = VirtualClock()
    return CountersManager(metadata, values, clock, 1000), metadata, values, clock


def label_of(reader: CountersReader, counter_id: int) -> str:
    found = reader.describe(counter_id)
    assert found is not None
    return found.label


def test_layout_of_an_allocated_counter() -> None:
    manager, metadata, values, _ = make_manager()
    manager.allocate(7, "first")

    counter = manager.allocate(12, "pub-pos", b"\x01\x02", registration_id=3, owner_id=4, reference_id=5, value=6)

    record, value = bytes(metadata)[512:1024], bytes(values)[128:256]
    assert counter.counter_id == 1
    assert struct.unpack_from("<iiq", record) == (1, 12, 2**63 - 1)
    assert record[16:128] == b"\x01\x02" + bytes(110)
    assert struct.unpack_from("<i", record, 128) == (7,)
    assert record[132:139] == b"pub-pos"
    assert struct.unpack_from("<qqqq", value) == (6, 3, 4, 5)


def test_freed_counter_is_reclaimed_and_reused_after_the_timeout() -> None:
    manager, metadata, _, clock = make_manager(2)
    counter = manager.allocate(1, "a", b"key")
    counter.set(9)
    manager.allocate(2, "b")

    manager.free(0)
    assert struct.unpack_from("<i", bytes(metadata)) == (-1,)
    assert bytes(metadata)[16:128] == bytes(112)
    clock.advance(999_000_000)
    with pytest.raises(CountersFullError):
        manager.allocate(3, "c")
    clock.advance(1_000_000)

    again = manager.allocate(3, "c")
    assert (again.counter_id, again.value) == (0, 0)


def test_reader_finds_and_iterates_over_allocated_counters_only() -> None:
    manager, metadata, values, _ = make_manager(8)
    for type_id in range(5):
        manager.allocate(type_id, f"counter {type_id}", bytes([type_id] * 4), registration_id=100 + type_id)
    manager.free(2)
    reader = CountersReader(metadata, values)

    assert [found.type_id for found in reader] == [0, 1, 3, 4]
    assert reader.find(3) == 3
    assert reader.find(3, b"\3\3") == 3
    assert reader.find(3, b"\4") == NULL_COUNTER_ID
    assert reader.find(3, registration_id=103) == 3
    assert reader.find(3, registration_id=104) == NULL_COUNTER_ID
    assert reader.find(2) == NULL_COUNTER_ID
    assert (reader.find_all(3), reader.find_all(2)) == ([3], [])
    assert reader.describe(2) is None
    assert label_of(reader, 4) == "counter 4"
    assert not reader.is_active(2)
    assert reader.is_active(4, 104)


def test_counter_values_are_seen_through_the_reader() -> None:
    manager, metadata, values, _ = make_manager()
    counter = manager.allocate(1, "x")
    reader = CountersReader(metadata, values)

    counter.set(10)
    assert counter.increment(5) == 15
    assert counter.propose_maximum(14) is False
    assert counter.propose_maximum(16) is True
    assert counter.compare_and_set(16, -1) is True
    assert counter.compare_and_set(16, -2) is False
    assert reader.get_value(0) == -1


def test_labels_are_cut_and_appended() -> None:
    manager, *_ = make_manager()
    manager.allocate(1, "n" * 400)
    manager.allocate(1, "snd-channel: ")
    manager.append_label(1, "127.0.0.1:4000")
    assert label_of(manager, 0) == "n" * 380
    assert label_of(manager, 1) == "snd-channel: 127.0.0.1:4000"


def test_ids_outside_the_file_are_refused() -> None:
    manager, *_ = make_manager(2)
    with pytest.raises(IndexError, match=r"allowed 0\.\.1"):
        manager.counter(2)
    with pytest.raises(ValueError, match="at most 112"):
        manager.allocate(1, "x", bytes(113))
    with pytest.raises(ValueError, match="is not allocated"):
        manager.free(0)


def test_local_counter_is_outside_every_file() -> None:
    counter = local_counter(3)
    assert (counter.counter_id, counter.value) == (NULL_COUNTER_ID, 3)


@given(st.lists(st.tuples(st.sampled_from(["allocate", "free", "wait"]), st.integers(0, 1500)), max_size=60))
def test_ids_follow_the_obvious_model(steps: list[tuple[str, int]]) -> None:
    """The model: a set of live ids, a list of freed ones with their deadlines, and a high-water mark."""
    manager, _, _, clock = make_manager(6)
    now_ms, high_water = 0, 0
    live: set[int] = set()
    freed: list[tuple[int, int]] = []
    for action, number in steps:
        if action == "wait":
            now_ms += number
            clock.advance(number * 1_000_000)
        elif action == "free" and live:
            counter_id = sorted(live)[number % len(live)]
            manager.free(counter_id)
            live.remove(counter_id)
            freed.append((counter_id, now_ms + 1000))
        elif action == "allocate":
            ready = [counter_id for counter_id, deadline in freed if deadline <= now_ms]
            if not ready and high_water == 6:
                with pytest.raises(CountersFullError):
                    manager.allocate(1, "x")
                continue
            counter_id = manager.allocate(1, "x").counter_id
            assert counter_id == (ready[0] if ready else high_water)
            high_water += not ready
            freed = [entry for entry in freed if entry[0] != counter_id]
            live.add(counter_id)
        assert {found.counter_id for found in manager} == live
