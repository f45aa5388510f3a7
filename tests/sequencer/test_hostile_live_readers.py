"""Readers of the shared stream that lie, keep silent, ask without end or come and go: the others have the whole log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.archive.client import control_requests
from ordo.archive.control.live_replays import LIVE_STREAM_ID
from ordo.runtime.errors import ArchiveError, PublicationError
from tests.archive.control_world import Caller, Server
from tests.sequencer.receiver_frames import DATA, END_OF_STREAM, SEND_SETUP, SETUP, ReceiverFrames, asking_for_setup
from tests.sequencer.test_live_stream import Reader, SharedWorld, close
from tests.transport.driver_world import MS, S

SERVER, HOST, VICTIM = "10.0.0.1", "10.0.0.8", "10.0.0.7"
TERM_LENGTH = 64 << 10
SM_REJECTED, INVALID_PACKETS, RETRANSMITTED_BYTES, RETRANSMIT_OVERFLOW, ERROR_FRAMES_RECEIVED = 44, 14, 36, 37, 38
LAST = 2**63 - 1


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SharedWorld]:
    world = SharedWorld(tmp_path)
    yield world
    close(world)


class Hostile:
    """A reader without a driver at its end of the stream: what it says there is made by hand."""

    def __init__(self, world: SharedWorld, port: int = 5000) -> None:
        self.world = world
        self.address = (HOST, port)
        self.server: Server = world.nodes_of_log[0].server
        self.caller: Caller = world.remote_caller(self.server, HOST)
        self.replay_id = -1
        self.source = ("", 0)
        self.frames: ReceiverFrames = None  # type: ignore[assignment]

    def join(self) -> None:
        """Until something of the stream has come, and its set-up once: from then on it can be named."""
        world, before = self.world, len(self.world.packets)
        channel = f"aeron:udp?endpoint={self.address[0]}:{self.address[1]}|live=true"
        self.replay_id = self.caller.call(control_requests.start_replay(0, channel, LIVE_STREAM_ID))

        def has_setup() -> bool:
            for _, source, to, data in world.packets[before:]:
                if to == self.address and data[6] == SETUP:
                    self.frames, self.source = ReceiverFrames(data), source
                    return True
                if to == self.address and data[6] == DATA:
                    if self.source == source and self.frames is not None:
                        return True
                    self.source = source
                    self.say(asking_for_setup(data))
            return False

        world.until(has_setup)

    def leave(self) -> None:
        self.caller.call(control_requests.stop_replay(self.replay_id))

    def say(self, *datagrams: bytes) -> None:
        for datagram in datagrams:
            self.world.network.hosts[SERVER].accept(self.address, self.source, datagram)

    @property
    def sent_position(self) -> int:
        """Where the stream is."""
        return self.server.archive.replays()[0].position

    def starts(self) -> list[int]:
        """Where the datagrams of the stream begin that it was sent: only there something can be sent again."""
        sent = (data for _, _, to, data in self.world.packets if to == self.address and data[6] == DATA)
        return sorted({self.frames.position_of(data) for data in sent if len(data) > 32})

    def received_bytes(self, since: int = 0) -> int:
        """UDP payload to the hostile reader of all packets from one on."""
        return sum(len(data) for _, _, to, data in self.world.packets[since:] if to == self.address)


def begin(world: SharedWorld, readers: int = 2) -> Hostile:
    """Readers that are live, and a hostile one that has joined them."""
    world.begin(readers)
    world.log(50)
    world.until_live()
    hostile = Hostile(world)
    hostile.join()
    assert world.live_of(0).client_count == readers + 1
    return hostile


def counted(hostile: Hostile, index: int) -> int:
    return int(hostile.server.node.driver.counters.get_value(index))


def demand_undisturbed(world: SharedWorld) -> None:
    """The readers are still in the stream and get what is committed next."""
    world.log(40)
    world.until_all_have()
    assert all(reader.follower.is_live for reader in world.readers)


# --- silence ----------------------------------------------------------------------------------------------------------


def test_a_reader_that_never_says_anything(world: SharedWorld) -> None:
    """It is sent what the others are, once, and nothing more when its session has ended."""
    hostile = begin(world)
    before = len(world.packets)
    for _ in range(5):
        demand_undisturbed(world)
    streams = {data[12:20] for _, _, to, data in world.packets[before:] if to == hostile.address}
    assert streams == {hostile.frames.names}
    hostile.caller.session.close()
    world.until(lambda: world.live_of(0).client_count == 2)
    before = len(world.packets)
    demand_undisturbed(world)
    assert hostile.received_bytes(before) == 0


def test_a_silent_reader_that_was_the_first_keeps_nobody_out(world: SharedWorld) -> None:
    world.begin(0)
    world.log(50)
    Hostile(world).join()
    world.log(200)
    world.readers.append(Reader(world, "10.0.1.1"))
    world.until_all_have()
    world.until_live()
    demand_undisturbed(world)


def test_a_stream_whose_readers_stand_still_is_not_the_next_ones(world: SharedWorld) -> None:
    """It says that it is there and takes nothing: whoever joined it would be sent the log from where it stood."""
    world.begin(0)
    world.log(50)
    hostile = Hostile(world)
    hostile.join()
    begun = hostile.sent_position
    for _ in range(40):
        if world.live_of(0).client_count:
            hostile.say(hostile.frames.status(begun, 0))
        world.log(10)
        world.run(100 * MS, step_ns=1 * MS)
    assert world.live_of(0).client_count == 0
    world.readers.append(Reader(world, "10.0.1.1"))
    world.until_all_have()
    world.until_live()
    assert hostile.sent_position > begun + TERM_LENGTH
    demand_undisturbed(world)


# --- lies -------------------------------------------------------------------------------------------------------------


def test_positions_and_windows_that_cannot_be(world: SharedWorld) -> None:
    hostile = begin(world)
    rejected, invalid = counted(hostile, SM_REJECTED), counted(hostile, INVALID_PACKETS)
    here = hostile.sent_position
    absurd = (-1, -TERM_LENGTH, LAST, 2**62, 2**31, here + 40 * TERM_LENGTH, here - 40 * TERM_LENGTH, 0)
    for position in absurd:
        hostile.say(hostile.frames.status(position, TERM_LENGTH // 2))
        hostile.say(hostile.frames.status(position, 0, END_OF_STREAM))
    for window in (-1, -(2**31), 2**31 - 1, TERM_LENGTH // 2 + 1):
        hostile.say(hostile.frames.status(here, window))
    world.run(20 * MS)
    assert counted(hostile, SM_REJECTED) == rejected + 2 * len(absurd)
    assert counted(hostile, INVALID_PACKETS) == invalid + 4
    demand_undisturbed(world)


@pytest.mark.parametrize("window", [0, TERM_LENGTH // 2])
def test_a_reader_that_is_always_ahead_or_behind(world: SharedWorld, window: int) -> None:
    """As far as it can be, without being told to be wrong: the others get what the sender has, or their own replay."""
    hostile = begin(world)
    for turn in range(200):
        aside = TERM_LENGTH // 2 * (1 if turn % 2 else -1) & ~31
        if world.live_of(0).client_count:
            hostile.say(hostile.frames.status(hostile.sent_position + aside, window, receiver_id=turn))
            hostile.say(hostile.frames.status(hostile.sent_position, 0, SEND_SETUP))
        if turn % 10 == 0:
            world.log(30)
        world.run(5 * MS)
    world.until_all_have()


def test_receivers_that_a_reader_invents(world: SharedWorld) -> None:
    """They filled the table of those that are heard; when they fell silent together, nobody was there any more."""
    world.begin(0)
    world.log(50)
    hostile = Hostile(world)
    hostile.join()
    for first in range(0, 5000, 100):
        hostile.say(
            *(hostile.frames.status(hostile.sent_position, 1024, receiver_id=first + one) for one in range(100))
        )
        world.run(MS)
    world.readers.append(Reader(world, "10.0.1.1"))
    world.until_all_have()
    world.until_live()
    for _ in range(8):
        world.log(5)
        world.run(S, step_ns=1 * MS)
    world.until_all_have()
    assert world.readers[0].follower.is_live
    assert [one.replay_session_id for one in world.live_of(0)._replays] == [hostile.replay_id]


# --- asking -----------------------------------------------------------------------------------------------------------


def test_a_reader_that_asks_for_everything_again_all_the_time(world: SharedWorld) -> None:
    """Other places each time brought it half a window for every 28 bytes: 680 MB a second, of 1.4 MB of NAKs."""
    hostile = begin(world)
    world.log(100)
    world.until_all_have()
    starts = hostile.starts()[-20:]
    repeated, overflow = counted(hostile, RETRANSMITTED_BYTES), counted(hostile, RETRANSMIT_OVERFLOW)
    began_ns, began = world.clock.now(), hostile.sent_position
    for turn in range(2000):
        for start in (starts[0], starts[10], *starts[turn % 10 :: 3]):
            hostile.say(hostile.frames.nak(start, TERM_LENGTH // 2))
        hostile.say(hostile.frames.nak(0, TERM_LENGTH), hostile.frames.nak(LAST, 64), hostile.frames.nak(-64, 64))
        if turn % 200 == 0:
            world.log(5)
            starts = hostile.starts()[-20:]
        world.cycle()
    lingered = 1 + (world.clock.now() - began_ns) // (10 * MS)
    again = counted(hostile, RETRANSMITTED_BYTES) - repeated
    assert 0 < again <= 2 * (lingered * 4 * TERM_LENGTH // 2 + hostile.sent_position - began)
    assert counted(hostile, RETRANSMIT_OVERFLOW) - overflow > 5000
    world.until_all_have()
    demand_undisturbed(world)


def test_a_reader_that_refuses_the_stream_over_and_over(world: SharedWorld) -> None:
    """Each refusal is told to all clients of the driver: one that was busy for some milliseconds had lost its place."""
    hostile = begin(world)
    node = hostile.server.node
    busy = node.new_client()
    busy.do_work(world.clock.now())
    for _ in range(100):
        for receiver_id in range(30):
            hostile.say(hostile.frames.status(hostile.sent_position, 1024, receiver_id=receiver_id))
            hostile.say(hostile.frames.refusal(receiver_id, b"x" * 1000))
        world.cycle()
    busy.do_work(world.clock.now())
    assert all(isinstance(error, PublicationError) for error in node.client_errors)
    assert 0 < len(node.client_errors) <= 2 * 64
    assert counted(hostile, ERROR_FRAMES_RECEIVED) == 3000
    busy.close()
    demand_undisturbed(world)


# --- coming and going -------------------------------------------------------------------------------------------------


def test_a_reader_that_comes_and_goes(world: SharedWorld) -> None:
    hostile = begin(world)
    for turn in range(40):
        hostile.leave()
        hostile.join()
        if turn % 12 == 0:
            world.log(5)
    endpoint = next(one for one in hostile.server.node.driver.conductor.publications.endpoints.all if one.is_manual)
    assert endpoint.destination_count == world.live_of(0).client_count == 3
    world.until_all_have()
    demand_undisturbed(world)


def test_a_reader_that_comes_and_goes_alone_leaves_nothing_behind(world: SharedWorld) -> None:
    """Each time a stream began and ended: publications, sockets and files of a second of them were there at a time."""
    world.begin(0)
    world.log(50)
    hostile = Hostile(world)
    publications = hostile.server.node.driver.conductor.publications
    before = most = len(publications.network)
    began_ns = world.clock.now()
    for _ in range(15):
        hostile.join()
        hostile.leave()
        most = max(most, len(publications.network))
    assert most <= before + 3
    assert world.clock.now() - began_ns > 12 * S, "a stream a second"


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_name_that_becomes_somebody_elses(world: SharedWorld) -> None:
    """The host has shown that it receives at a name, which is then the victim's: all of the log went there."""
    world.begin(1)
    world.log(10)
    world.until_live()
    world.network.names["reader.example"] = HOST
    node = world.node(HOST)
    response = "aeron:udp?endpoint=reader.example:0"
    caller = world.caller(node.client, f"aeron:udp?endpoint={SERVER}:8010", response).connected()
    world.network.names["reader.example"] = VICTIM
    before = len(world.packets)
    with pytest.raises(ArchiveError, match="by its address"):
        caller.call(
            control_requests.start_replay(0, "aeron:udp?endpoint=reader.example:5000|live=true", LIVE_STREAM_ID)
        )
    replay = control_requests.start_replay(0, "aeron:udp?endpoint=reader.example:5000", 5)
    caller.session.request(replay.message, **replay.fields)
    for _ in range(5):
        world.log(30)
        world.run(S, step_ns=1 * MS)
    to_victim = [data for _, _, to, data in world.packets[before:] if to[0] == VICTIM]
    assert len(to_victim) <= 4
    assert {data[6] for data in to_victim} <= {SETUP}
    world.until_all_have()
