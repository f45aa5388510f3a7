"""The broadcast buffer (cnc-and-driver-protocol.md §4)."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordo.runtime.errors import TransportError
from ordo.runtime.native.memory import Memory, allocate
from ordo.transport.control.broadcast import TRAILER_LENGTH, BroadcastReceiver, BroadcastTransmitter


def make_pair(capacity: int = 1024) -> tuple[BroadcastTransmitter, BroadcastReceiver, Memory]:
    memory = allocate(capacity + TRAILER_LENGTH)
    return BroadcastTransmitter(memory), BroadcastReceiver(memory), memory


def drain(receiver: BroadcastReceiver) -> list[tuple[int, bytes]]:
    found = []
    while (message := receiver.receive()) is not None:
        found.append(message)
    return found


def test_golden_record_and_trailer() -> None:
    transmitter, receiver, memory = make_pair()
    transmitter.transmit(7, b"abc")
    transmitter.transmit(8, b"")
    data = bytes(memory)
    assert data[:24] == struct.pack("<ii", 11, 7) + b"abc\0\0\0\0\0" + struct.pack("<ii", 8, 8)
    assert struct.unpack_from("<qqq", data, 1024) == (24, 24, 16)
    assert drain(receiver) == [(7, b"abc"), (8, b"")]


def test_every_receiver_gets_every_message() -> None:
    transmitter, first, memory = make_pair()
    second = BroadcastReceiver(memory)
    transmitter.transmit(1, b"x")
    assert drain(first) == drain(second) == [(1, b"x")]


def test_late_receiver_begins_with_the_latest_message() -> None:
    transmitter, _, memory = make_pair()
    transmitter.transmit(1, b"old")
    transmitter.transmit(2, b"latest")
    assert drain(BroadcastReceiver(memory)) == [(2, b"latest")]


def test_padding_is_passed_over_at_the_end() -> None:
    transmitter, receiver, _ = make_pair()
    for number in range(9):
        transmitter.transmit(1, bytes([number]) * 104)
        assert drain(receiver) == [(1, bytes([number]) * 104)]
    transmitter.transmit(2, b"wrapped")
    transmitter.transmit(2, b"y" * 120)
    assert drain(receiver)[0] == (2, b"wrapped")
    transmitter.transmit(3, b"")
    assert drain(receiver) == [(3, b"")]
    assert receiver.lapped_count == 0


def test_lapped_receiver_counts_and_goes_on_with_the_latest() -> None:
    transmitter, receiver, _ = make_pair()
    for number in range(40):
        transmitter.transmit(1, bytes([number]) * 100)
    assert drain(receiver) == [(1, bytes([39]) * 100)]
    assert receiver.lapped_count == 1


def test_misuse_is_refused() -> None:
    transmitter, _, _ = make_pair()
    with pytest.raises(TransportError, match="type=-1"):
        transmitter.transmit(-1, b"")
    with pytest.raises(TransportError, match="129 bytes"):
        transmitter.transmit(1, bytes(129))
    with pytest.raises(TransportError, match="power of two"):
        BroadcastReceiver(allocate(1000))


def test_impossible_length_is_an_error() -> None:
    transmitter, receiver, memory = make_pair()
    transmitter.transmit(1, b"abc")
    with memoryview(memory) as view:
        view[:4] = struct.pack("<i", 5000)
    with pytest.raises(TransportError, match="length=5000"):
        receiver.receive()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 128), st.just(None)), max_size=200))
def test_against_a_list(steps: list[int | None]) -> None:
    """A number transmits so many bytes, None lets the receiver read: all of it, or a suffix when it was lapped."""
    transmitter, receiver, _ = make_pair()
    sent = []
    taken = 0
    for number, step in enumerate([*steps, None], 1):
        if step is not None:
            message = (number, bytes([number % 251]) * step)
            transmitter.transmit(*message)
            sent.append(message)
            continue
        laps = receiver.lapped_count
        found = drain(receiver)
        unread = sent[taken:]
        if receiver.lapped_count == laps:
            assert found == unread
        else:
            assert found == sent[-1:]
            assert sum(len(payload) + 8 for _, payload in unread) > 1024 - 2 * 136
        taken = len(sent)
