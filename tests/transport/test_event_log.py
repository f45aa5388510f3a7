"""The event log of a driver, and what reads it: `ordo trace`."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from ordo.runtime.errors import StorageMissingError, TransportError
from ordo.runtime.native.memory import HeapMemoryProvider
from ordo.transport.driver.channels.gossip import Entry, encode_frame
from ordo.transport.driver.frames import event_log
from ordo.transport.driver.frames.event_log import EventLog
from ordo.transport.inspection.trace import KINDS, describe, open_trace, read_lines
from tests.transport.driver_world import MS, Node, S, World

A, B = "10.0.0.1", "10.0.0.2"
CHANNEL = f"aeron:udp?endpoint={B}:4000"
ALL = sum(KINDS.values())


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def log_of(node: Node) -> EventLog:
    """The driver's own view of its event log."""
    return EventLog(node.memory.open(f"/sim/{node.address}/{event_log.FILE_NAME}"), node.world.clock)


def test_nothing_is_written_while_nobody_looks(world: World) -> None:
    node = world.node(A)
    node.client.add_publication(CHANNEL, 10)
    log = log_of(node)
    assert (log.ring.tail_position, log.lost_count, log.kinds) == (0, 0, 0)


def test_everything_of_a_stream_is_seen_at_both_ends(world: World) -> None:
    sender, receiver = world.node(A), world.node(B)
    with (
        open_trace(sender.memory, f"/sim/{A}", world.clock, ALL) as out,
        open_trace(receiver.memory, f"/sim/{B}", world.clock, ALL) as come,
    ):
        subscription = receiver.client.add_subscription(CHANNEL, 10)
        publication = sender.client.add_publication(CHANNEL, 10)
        world.until(lambda: publication.is_connected)
        publication.offer(b"hello")
        world.until(lambda: subscription.poll(lambda payload, header: None, 1) > 0)
        sent, arrived = read_lines(out), read_lines(come)
    session = f"session_id={publication.session_id} stream_id=10"
    for lines, wanted in (
        (sent, f"command AddPublication client_id={sender.client.client_id}"),
        (sent, "response OnPublicationReady"),
        (sent, "out SETUP length_bytes=40"),
        (sent, f"in {B}:4000 SM length_bytes="),
        (sent, f"out DATA length_bytes=64 frame_length=37 flags=11000000 term_offset=0 {session}"),
        (arrived, "command AddSubscription"),
        (arrived, "SETUP length_bytes=40"),
        (arrived, f"DATA length_bytes=64 frame_length=37 flags=11000000 term_offset=0 {session}"),
        (arrived, f"{session} source={A}:"),
        (arrived, "out 10.0.0.1:"),
    ):
        assert any(wanted in line for line in lines), (wanted, lines)
    assert all(line[2] == line[5] == ":" for line in sent + arrived), "each begins with its time"


def test_only_what_is_wanted_is_written_and_the_end_switches_it_off(world: World) -> None:
    node = world.node(A)
    with open_trace(node.memory, f"/sim/{A}", world.clock, KINDS["states"]) as log:
        client = node.new_client()
        client.add_publication(CHANNEL, 10).close()
        lines = []
        for _ in range(8):
            world.run(S, step_ns=50 * MS)
            lines += read_lines(log)
        client.close()
        world.run(2 * S, step_ns=50 * MS)
        lines += read_lines(log)
    assert all(" state " in line for line in lines)
    assert [line.split(" ")[2] for line in lines] == ["client", *["publication"] * (len(lines) - 2), "client"]
    assert any(line.endswith("DONE") for line in lines)
    assert lines[-1].endswith("closed")
    node.new_client().close()
    assert log_of(node).kinds == 0


def test_a_reader_that_was_killed_costs_nothing_for_long(world: World) -> None:
    node = world.node(A)
    log = log_of(node)
    log.show_reader()
    log.kinds = ALL
    with (
        pytest.raises(TransportError, match="somebody reads the events"),
        open_trace(node.memory, f"/sim/{A}", world.clock, ALL),
    ):
        pass
    world.run(7 * S, step_ns=50 * MS)
    assert log.kinds == 0
    with open_trace(node.memory, f"/sim/{A}", world.clock, KINDS["commands"]) as next_reader:
        assert read_lines(next_reader) == [], "what the one before did not take is gone"


def test_events_without_room_are_counted_and_the_driver_goes_on(world: World) -> None:
    node = world.node(A, event_log_length=4096)
    with open_trace(node.memory, f"/sim/{A}", world.clock, ALL) as log:
        for stream_id in range(40):
            node.client.add_publication(CHANNEL, stream_id)
        assert log.lost_count > 0
        read_lines(log)
        lost = log.lost_count
        node.client.add_publication(CHANNEL, 99)
        assert log.lost_count == lost and any("stream_id=99" in line for line in read_lines(log))
    assert node.errors == []


def test_a_folder_without_a_driver_of_ordo() -> None:
    memory = HeapMemoryProvider()
    with (
        pytest.raises(StorageMissingError, match="no driver of Ordo in /sim/nowhere"),
        open_trace(memory, "/sim/nowhere", World().clock, ALL),
    ):
        pass


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (event_log.FRAME_IN, bytes.fromhex("0300000000") + b"abc", "in length_bytes=3"),
        (
            event_log.FRAME_OUT,
            bytes.fromhex("0800000000") + bytes.fromhex("0800000000000200"),
            "out NAK length_bytes=8",
        ),
        (event_log.FRAME_OUT, bytes.fromhex("0800000000") + bytes.fromhex("0800000000009900"), "out type=153"),
        (
            event_log.FRAME_IN,
            struct.pack("<IB", 43, 0) + struct.pack("<iBBHiiqqii", 43, 0, 0, 4, 7, 10, 3, 0, 13, 3) + b"why",
            "in ERR length_bytes=43 frame_length=43 flags=00000000 session_id=7 stream_id=10 receiver_id=3 group_tag=0 "
            "error_code=13 text_length=3 text='why'",
        ),
        (
            event_log.FRAME_IN,
            struct.pack("<IB", 1408, 0) + encode_frame([Entry("a" * 50, "10.0.0.1", 1, 2, False)] * 9)[:96],
            "host=10.0.0.1 port=1 age_ms=2 and more",
        ),
        (event_log.COMMAND, bytes.fromhex("01000000") + b"xy", "command type=1 that cannot be read"),
        (event_log.RESPONSE, bytes.fromhex("ff000000") + b"xy", "response type=255 length_bytes=2"),
    ],
)
def test_what_cannot_be_read_is_said_so(kind: int, body: bytes, said: str) -> None:
    assert said in describe(kind, bytes(8) + body)
