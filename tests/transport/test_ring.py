"""The command ring (cnc-and-driver-protocol.md §3)."""

import struct
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.runtime.errors import TransportError
from ordo.runtime.native.memory import Memory, allocate
from ordo.transport.control.ring import INSUFFICIENT_CAPACITY, TRAILER_LENGTH, ManyToOneRing


def make_ring(capacity: int = 1024) -> tuple[ManyToOneRing, Memory]:
    memory = allocate(capacity + TRAILER_LENGTH)
    return ManyToOneRing(memory), memory


def drain(ring: ManyToOneRing, limit: int = 1000) -> list[tuple[int, bytes]]:
    found = []
    while ring.has_message():
        ring.read(lambda type_id, payload: found.append((type_id, payload)), limit)
    return found


def test_golden_record_and_trailer() -> None:
    ring, memory = make_ring()
    assert ring.write(3, b"abcde")
    assert ring.next_correlation_id() == 0
    ring.consumer_heartbeat_ms = 12
    data = bytes(memory)
    assert data[:16] == struct.pack("<ii", 13, 3) + b"abcde\0\0\0"
    trailer = data[1024:]
    assert struct.unpack_from("<q", trailer, 128) == (16,)
    assert struct.unpack_from("<q", trailer, 384) == (0,)
    assert struct.unpack_from("<q", trailer, 512) == (1,)
    assert struct.unpack_from("<q", trailer, 640) == (12,)
    assert drain(ring) == [(3, b"abcde")]
    assert bytes(memory)[:1024] == bytes(1024)
    assert (ring.head_position, ring.tail_position, ring.consumer_heartbeat_ms) == (16, 16, 12)


def test_padding_ends_the_ring_and_nothing_wraps() -> None:
    ring, memory = make_ring()
    for _ in range(8):
        assert ring.write(1, bytes(112))
    assert len(drain(ring)) == 8
    assert ring.write(2, b"x" * 100)
    assert struct.unpack_from("<ii", bytes(memory), 960) == (64, -1)
    assert drain(ring) == [(2, b"x" * 100)]


def test_full_ring_refuses_and_goes_on_after_reading() -> None:
    ring, _ = make_ring(64 * 16)
    while ring.write(1, bytes(24)):
        pass
    assert ring.tail_position == 1024
    assert ring.read(lambda *_: None, 1) == 1
    assert ring.write(1, bytes(24))
    assert not ring.write(1, bytes(24))
    assert len(drain(ring)) == 32


def test_message_left_in_place_is_read_again() -> None:
    ring, _ = make_ring()
    ring.write(1, b"a")
    ring.write(2, b"b")
    assert ring.read(lambda type_id, _: type_id == 1, 10) == 1
    assert drain(ring) == [(2, b"b")]


def test_message_whose_handler_raises_is_taken() -> None:
    ring, _ = make_ring()
    ring.write(1, b"a")
    ring.write(2, b"b")
    with pytest.raises(ZeroDivisionError):
        ring.read(lambda *_: 1 / 0, 10)
    assert drain(ring) == [(2, b"b")]


def test_claims_are_invisible_until_committed_and_vanish_when_aborted() -> None:
    ring, memory = make_ring()
    first = ring.claim(5, 8)
    second = ring.claim(6, 0)
    assert not ring.has_message()
    with memoryview(memory) as view:
        view[first + 8 : first + 16] = b"12345678"
    ring.commit(second)
    assert drain(ring) == []
    ring.commit(first)
    assert ring.has_message()
    assert drain(ring) == [(5, b"12345678"), (6, b"")]
    ring.abort(ring.claim(7, 3))
    ring.write(8, b"")
    assert drain(ring) == [(8, b"")]


def test_misuse_is_refused() -> None:
    ring, _ = make_ring()
    assert ring.max_message_length == 128
    with pytest.raises(TransportError, match="type=0"):
        ring.write(0, b"")
    with pytest.raises(TransportError, match="129 bytes"):
        ring.write(1, bytes(129))
    with pytest.raises(TransportError, match="power of two"):
        ManyToOneRing(allocate(1000 + TRAILER_LENGTH))


@pytest.mark.parametrize("length", [4, 1032, 2147483647])
def test_impossible_length_is_an_error(length: int) -> None:
    ring, memory = make_ring()
    with memoryview(memory) as view:
        view[:8] = struct.pack("<ii", length, 1)
    with pytest.raises(TransportError, match=f"length={length}"):
        ring.read(lambda *_: None, 1)


def test_unblock_of_a_claim_that_was_never_committed() -> None:
    ring, _ = make_ring()
    ring.claim(1, 20)
    ring.write(2, b"after")
    assert drain(ring) == []
    assert ring.unblock()
    assert drain(ring) == [(2, b"after")]
    assert not ring.unblock()


def test_unblock_of_space_that_was_never_touched() -> None:
    ring, memory = make_ring()
    index = ring.claim(1, 20)
    with memoryview(memory) as view:
        view[index : index + 8] = bytes(8)
    assert not ring.unblock()
    ring.write(2, b"after")
    assert ring.unblock()
    assert drain(ring) == [(2, b"after")]


def test_unblock_leaves_a_committed_message_alone() -> None:
    ring, _ = make_ring()
    ring.write(2, b"there")
    assert not ring.unblock()
    assert drain(ring) == [(2, b"there")]


def test_insufficient_capacity_has_a_code() -> None:
    ring, _ = make_ring(64)
    assert ring.claim(1, 48) == 0
    assert ring.claim(1, 8) == INSUFFICIENT_CAPACITY


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 128), st.integers(-40, -1)), max_size=200))
def test_against_a_queue(steps: list[int]) -> None:
    """A positive step writes so many bytes, a negative one reads so many messages."""
    ring, memory = make_ring()
    expected: deque[tuple[int, bytes]] = deque()
    for number, step in enumerate(steps, 1):
        if step >= 0:
            payload = bytes([number % 251]) * step
            if ring.write(number, payload):
                expected.append((number, payload))
            else:
                assert expected, "an empty ring takes any message"
        else:
            found: list[tuple[int, bytes]] = []
            ring.read(lambda *message, sink=found: sink.append(message), -step)
            assert found == [expected.popleft() for _ in found]
    assert drain(ring) == list(expected)
    assert bytes(memory)[:1024] == bytes(1024)
    assert ring.head_position == ring.tail_position
