"""The log followed over several nodes in virtual time: nothing twice, nothing left out, nothing uncommitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.control.access import AccessPolicy, ReadingRights, UnicastChannels, full_access
from ordo.archive.control.queries import QueryRequests
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.protocol.own_codecs import ToldIdentity
from ordo.cluster.node.archive_service import CommittedLogBounds
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.follow.entries import EntryKind, LogEntry, decode_entry
from ordo.follow.executed_follower import ExecutedFollower
from ordo.follow.follower import LogFollower
from ordo.follow.log_commands import describe_entry
from ordo.follow.recordings.log_source import LogSource
from ordo.follow.start_search import StartSearch
from ordo.runtime.errors import ArchiveError, DecodeError
from ordo.runtime.native.counters import Counter, local_counter
from ordo.transport.streams.publication import ExclusivePublication
from tests.archive.control_world import SEGMENT_LENGTH, ControlWorld, Server
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, S

OPTIONS = "term-length=64k|init-term-id=3|term-id=3|term-offset=0"


class LogNode:
    """A host with a recorded log of its own, and a commit position that the test moves."""

    def __init__(self, world: LogWorld, address: str, is_follower: bool) -> None:
        self.commit: Counter = local_counter(0)
        self.told: ToldIdentity | None = None
        """What it says of whose log it has."""
        self.past: Callable[[int], bytes] = lambda _: b""
        """Whose log it says its log was at a position."""
        self.server: Server = world.server(address, sessions_max=8)
        self.serve()
        channel = f"aeron:udp?endpoint={address}:9100" if is_follower else "aeron:ipc"
        self.server.archive.record_subscription(channel, LOG_STREAM_ID)
        self.publication: ExclusivePublication = self.server.node.client.add_exclusive_publication(
            f"{channel}{'|' if is_follower else '?'}{OPTIONS}", LOG_STREAM_ID
        )
        world.until(lambda: self.server.archive.recording(0))

    def serve(self, *, knows_past: bool = True) -> None:
        """Let clients read what is committed. `knows_past`: as this release does, which tells whose log it was."""
        bounds = CommittedLogBounds(self.server.archive, self.commit, 20, 20)

        def find_past(position: int) -> bytes:
            return self.past(position)

        access = AccessPolicy(
            ReadingRights(),
            UnicastChannels(),
            bounds,
            lambda: self.told,
            past_identity=find_past if knows_past else None,
        )
        self.server.conductor._access = access
        self.server.conductor.replays._access = access
        queries = QueryRequests(self.server.archive, self.server.conductor.recordings, access)
        self.server.conductor._queries = queries
        self.server.conductor._handlers = {**self.server.conductor._handlers, **queries.handlers}

    @property
    def settings(self) -> ArchiveClientSettings:
        return ArchiveClientSettings(
            control_channel=f"aeron:udp?endpoint={self.server.node.address}:8010",
            response_channel="aeron:udp?endpoint=10.0.0.9:0",
            message_timeout_s=2.0,
        )


class LogWorld(ControlWorld):
    """Three nodes that hold one log, and a follower of it."""

    follower: LogFollower | None = None
    seen: list[LogEntry]

    def start(self, position: int | None = 0, silence_s: float = 0.5, leader: int | None = None) -> None:
        """`leader`: the index of the node that writes the log, by which the others have it; None: each has its own."""
        self.nodes_of_log = [
            LogNode(self, f"10.0.0.{index + 1}", leader is not None and index != leader) for index in range(3)
        ]
        self.client_node = self.node("10.0.0.9", image_liveness_timeout_ns=2 * S)
        self.seen = []
        self.follow(position, silence_s)

    def follow(self, position: int | None, silence_s: float = 0.5, cluster: KnownCluster | None = None) -> None:
        settings = [node.settings for node in self.nodes_of_log]
        self.follower = LogFollower(
            self.client_node.client, settings, position, silence_s, goes_live=True, cluster=cluster
        )

    def stop_reading(self) -> None:
        """Until no node replays anything."""
        assert self.follower is not None
        self.follower.close()
        self.follower = None
        self.until(lambda: not any(node.server.archive.replays() for node in self.nodes_of_log))

    def cycle(self) -> None:
        super().cycle()
        if self.follower is not None:
            self.follower.work(self.clock.now())
            self.follower.poll(self.seen.append, 20)

    def append(self, numbers: range, *, nodes: list[int] | None = None) -> int:
        """Appends messages to the logs of some nodes, of all by default: the position after the last."""
        position = 0
        for index in range(3) if nodes is None else nodes:
            publication = self.nodes_of_log[index].publication
            for number in numbers:
                record = codecs.SESSION_MESSAGE_HEADER.encode(
                    leadership_term_id=1, cluster_session_id=7, timestamp=number
                )
                self.send(publication, [record + b"%d" % number + b"." * (number * 37 % 3000)])
            position = publication.position
        return position

    def commit(self, position: int, *, nodes: list[int] | None = None) -> None:
        for index in range(3) if nodes is None else nodes:
            self.nodes_of_log[index].commit.set(position)

    @property
    def numbers(self) -> list[int]:
        return [entry.timestamp for entry in self.seen]

    def node_that_is_read(self) -> LogNode:
        assert self.follower is not None
        address = self.follower.source_address
        return next(node for node in self.nodes_of_log if node.settings.control_channel == address)

    def crash(self, node: LogNode) -> None:
        """The process is gone."""
        self.servers.remove(node.server)
        node.server.node.crash()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    yield world
    if world.follower is not None:
        world.follower.close()
    world.close()


def test_entries_come_once_they_are_committed_and_not_before(world: LogWorld) -> None:
    world.start()
    half = world.append(range(100))
    end = world.append(range(100, 200))
    world.run(200 * MS)
    assert world.seen == []
    world.commit(half)
    world.until(lambda: len(world.seen) == 100)
    world.run(200 * MS)
    assert world.numbers == list(range(100))
    world.commit(end)
    world.until(lambda: len(world.seen) == 200)
    assert world.numbers == list(range(200))
    assert world.seen[-1].position == end
    assert world.seen[0] == LogEntry(world.seen[0].position, EntryKind.MESSAGE, 0, 1, 7, b"0")


def test_the_leader_is_read_from_only_until_another_node_is_known(world: LogWorld) -> None:
    """Its address was given first."""
    world.start(leader=0)
    world.commit(world.append(range(50)))
    world.until(lambda: len(world.seen) == 50)
    assert world.follower is not None
    leader, follower = world.nodes_of_log[0].settings.control_channel, world.follower
    world.until(lambda: follower.source_address not in (None, leader), timeout_ns=2 * S)
    assert "the leader, which is spared" in follower.problem
    read = world.node_that_is_read()
    world.commit(world.append(range(50, 100)))
    world.until(lambda: len(world.seen) == 100)
    world.run(5 * S, step_ns=1 * MS)
    assert world.node_that_is_read() is read
    assert world.numbers == list(range(100))


def test_nodes_that_are_down_delay_nobody_who_reads_the_leader(world: LogWorld) -> None:
    world.start(leader=0)
    assert world.follower is not None
    world.follower.close()
    for node in world.nodes_of_log[1:]:
        world.crash(node)
    world.follow(0)
    world.commit(world.append(range(50), nodes=[0]), nodes=[0])
    world.until(lambda: len(world.seen) == 50, timeout_ns=500 * MS)
    for turn in range(1, 11):
        world.run(500 * MS, step_ns=1 * MS)
        world.commit(world.append(range(50 * turn, 50 * turn + 50), nodes=[0]), nodes=[0])
        world.until(lambda: len(world.seen) == 50 * turn + 50, timeout_ns=500 * MS)  # noqa: B023
    assert world.node_that_is_read() is world.nodes_of_log[0]


def test_nodes_that_are_down_and_asked_first_delay_a_reader_little(world: LogWorld) -> None:
    """Neither for as long as a node may stand still, nor until a session with one of them fails."""
    world.start()
    assert world.follower is not None
    world.follower.close()
    world.commit(world.append(range(50)))
    for node in world.nodes_of_log[:2]:
        world.crash(node)
    world.follow(0, silence_s=5)
    world.until(lambda: len(world.seen) == 50, timeout_ns=1500 * MS)
    assert world.numbers == list(range(50))


def test_a_node_that_dies_beside_one_that_is_down_delays_a_reader_little_more(world: LogWorld) -> None:
    """The next one in turn is down and does not answer: the one behind it is asked soon, too."""
    world.start(leader=2)
    assert world.follower is not None
    world.follower.close()
    world.crash(world.nodes_of_log[1])
    world.follow(0)
    world.commit(world.append(range(50), nodes=[0, 2]), nodes=[0, 2])
    world.until(lambda: len(world.seen) == 50)
    assert world.node_that_is_read() is world.nodes_of_log[0]
    world.crash(world.nodes_of_log[0])
    world.commit(world.append(range(50, 80), nodes=[2]), nodes=[2])
    world.until(lambda: len(world.seen) == 80, timeout_ns=1500 * MS)
    assert world.numbers == list(range(80))


def test_a_follower_that_is_behind_does_not_take_over_from_the_leader(world: LogWorld) -> None:
    world.start(leader=0)
    world.commit(world.append(range(50), nodes=[0, 2]), nodes=[0, 2])
    world.until(lambda: len(world.seen) == 50)
    assert world.follower is not None
    follower, wanted = world.follower, world.nodes_of_log[2].settings.control_channel
    world.until(lambda: follower.source_address == wanted, timeout_ns=20 * S, step_ns=1 * MS)


def test_a_reader_goes_on_at_a_position(world: LogWorld) -> None:
    world.start()
    end = world.append(range(50))
    world.commit(end)
    world.until(lambda: len(world.seen) == 50)
    position = world.seen[19].position
    assert world.follower is not None
    world.follower.close()
    world.seen = []
    world.follow(position)
    world.until(lambda: len(world.seen) == 30)
    assert world.numbers == list(range(20, 50))


def test_live_begins_with_what_is_committed_next(world: LogWorld) -> None:
    world.start(None)
    assert world.follower is not None
    world.follower.close()
    middle = world.append(range(50))
    world.commit(middle)
    world.follow(None)
    world.until(lambda: world.follower and world.follower.source_address)
    world.run(100 * MS)
    assert world.seen == []
    world.commit(world.append(range(50, 80)))
    world.until(lambda: len(world.seen) == 30)
    assert world.numbers == list(range(50, 80))


def test_nodes_die_one_after_the_other_and_nothing_is_missing_or_twice(world: LogWorld) -> None:
    world.start()
    alive = [0, 1, 2]
    sent = 0
    for round_number in range(3):
        world.commit(world.append(range(sent, sent + 100), nodes=alive), nodes=alive)
        sent += 100
        world.until(lambda: len(world.seen) > sent - 60, timeout_ns=60 * S)  # noqa: B023
        if round_number < 2:
            dead = world.node_that_is_read()
            alive.remove(world.nodes_of_log.index(dead))
            world.crash(dead)
    world.until(lambda: len(world.seen) == sent, timeout_ns=60 * S, step_ns=200_000)
    assert world.numbers == list(range(sent))


def test_a_node_that_stands_still_is_left_for_one_that_has_more(world: LogWorld) -> None:
    world.start()
    first = world.append(range(50))
    world.commit(first)
    world.until(lambda: len(world.seen) == 50)
    stuck = world.node_that_is_read()
    others = [index for index, node in enumerate(world.nodes_of_log) if node is not stuck]
    end = world.append(range(50, 90))
    world.commit(end, nodes=others)
    world.until(lambda: len(world.seen) == 90)
    assert world.numbers == list(range(90))
    assert world.node_that_is_read() is not stuck
    assert world.follower is not None
    assert "stands still" in world.follower.problem


def test_a_quiet_log_keeps_its_node(world: LogWorld) -> None:
    world.start()
    world.commit(world.append(range(10)))
    world.until(lambda: len(world.seen) == 10)
    node = world.node_that_is_read()
    world.run(5 * S, step_ns=1 * MS)
    assert world.node_that_is_read() is node
    assert sum(len(node.server.archive.replays()) for node in world.nodes_of_log) == 1


def test_a_node_behind_the_position_is_waited_for(world: LogWorld) -> None:
    """After its start a node knows of little that is committed."""
    world.start()
    assert world.follower is not None
    world.follower.close()
    end = world.append(range(60))
    positions = [message.position for message in world.nodes_of_log[0].server.archive.reader(0).messages()]
    world.follow(positions[39])
    world.run(300 * MS)
    assert world.seen == []
    world.commit(end)
    world.until(lambda: len(world.seen) == 20)
    assert world.numbers == list(range(40, 60))


def test_what_every_node_has_deleted_is_told_with_the_oldest_position(world: LogWorld) -> None:
    world.start()
    world.commit(world.append(range(300)))
    world.until(lambda: len(world.seen) == 300)
    world.stop_reading()
    for number, node in enumerate(world.nodes_of_log):
        node.server.archive.purge_segments(0, (2 + number) * SEGMENT_LENGTH)
    world.follow(0)
    world.until(lambda: world.follower and world.follower.oldest_position is not None)
    assert world.follower is not None
    assert world.follower.oldest_position == 2 * SEGMENT_LENGTH
    assert world.follower.source_address is None


def test_one_node_that_still_has_the_position_is_enough(world: LogWorld) -> None:
    world.start()
    world.commit(world.append(range(300)))
    world.until(lambda: len(world.seen) == 300)
    world.stop_reading()
    for node in world.nodes_of_log[:2]:
        node.server.archive.purge_segments(0, 2 * SEGMENT_LENGTH)
    world.seen = []
    world.follow(0)
    world.until(lambda: len(world.seen) == 300)
    assert world.numbers == list(range(300))


def test_a_log_that_is_cut_behind_the_commit_position_is_read_on(world: LogWorld) -> None:
    """A follower of a new leader: the recording stops, loses what was never committed, and goes on."""
    world.start()
    committed = world.append(range(60))
    world.append(range(1000, 1020))
    world.commit(committed)
    world.until(lambda: len(world.seen) == 60)
    for node in world.nodes_of_log:
        archive = node.server.archive
        recording = archive.recording(0)
        assert recording is not None
        archive.stop(recording)
        node.publication.close()
        archive.truncate(0, committed)
        where = f"init-term-id=3|term-id={3 + committed // 65536}|term-offset={committed % 65536}"
        channel = f"aeron:udp?endpoint={node.server.node.address}:5555|ssc=true|term-length=64k|{where}"
        node.publication = node.server.node.client.add_exclusive_publication(channel, LOG_STREAM_ID)
        subscription = node.server.node.client.add_subscription(f"aeron-spy:{channel}", LOG_STREAM_ID)
        world.until(lambda: subscription.images)  # noqa: B023
        archive.record(subscription.images[0], recording_id=0)
    world.commit(world.append(range(60, 120)))
    world.until(lambda: len(world.seen) == 120, timeout_ns=60 * S)
    assert world.numbers == list(range(120))


@pytest.mark.parametrize("seed", range(4))
def test_a_lossy_network(tmp_path: Path, seed: int) -> None:
    world = LogWorld(tmp_path, seed=seed, faults=Faults(loss=0.03, duplication=0.02, reordering=0.05))
    world.start()
    sent = 0
    for _ in range(5):
        world.commit(world.append(range(sent, sent + 60)))
        sent += 60
        world.run(50 * MS)
    world.until(lambda: len(world.seen) == sent, timeout_ns=120 * S)
    assert world.numbers == list(range(sent))
    assert world.follower is not None
    world.follower.close()
    world.close()


# --- planted bugs: what the tests above rest on is seen to fail -------------------------------------------------------


def test_a_node_that_does_not_bound_its_log_would_be_seen(world: LogWorld) -> None:
    world.start()
    for node in world.nodes_of_log:
        node.server.conductor.replays._access = full_access()
    world.append(range(100))
    world.until(lambda: len(world.seen) == 100)
    assert world.numbers == list(range(100))


def test_a_gap_at_a_change_of_nodes_would_be_seen(world: LogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    world.commit(world.append(range(50)))
    world.until(lambda: len(world.seen) == 50)
    begin = LogSource.begin
    monkeypatch.setattr(LogSource, "begin", lambda source, position: begin(source, source.end_position))
    stuck = world.node_that_is_read()
    others = [index for index, node in enumerate(world.nodes_of_log) if node is not stuck]
    world.commit(world.append(range(50, 90)), nodes=others)
    world.until(lambda: world.follower and world.follower.source_address not in (None, stuck.settings.control_channel))
    world.commit(world.append(range(90, 120)), nodes=others)
    world.until(lambda: world.seen[-1].timestamp == 119)
    assert world.numbers != list(range(120))


# --- entries ----------------------------------------------------------------------------------------------------------


def test_every_kind_of_record_is_an_entry() -> None:
    fields: dict[str, Any] = {"leadership_term_id": 4, "timestamp": 9}
    opened = decode_entry(
        64, codecs.SESSION_OPEN_EVENT.encode(cluster_session_id=5, correlation_id=1, response_stream_id=2, **fields)
    )
    assert opened is not None
    assert (opened.kind, opened.session_id, opened.position) == (EntryKind.SESSION_OPEN, 5, 64)
    timer = decode_entry(64, codecs.TIMER_EVENT.encode(correlation_id=11, **fields))
    assert timer is not None
    assert (timer.kind, timer.session_id, timer.values.correlation_id) == (EntryKind.TIMER, -1, 11)
    head = ordo_codecs.REQUEST.encode(cluster_session_id=5, open_position=32, number=8, confirmed=7, **fields)
    request = decode_entry(64, head + b"buy 10")
    assert request is not None
    assert (request.kind, request.session_id, request.payload) == (EntryKind.REQUEST, 5, b"buy 10")
    assert (request.values.open_position, request.values.number) == (32, 8)
    assert describe_entry(request) == "64 request time=9 term=4 number=8 session=5 length=6 b'buy 10'"
    assert decode_entry(64, b"\0" * 8) is None
    assert decode_entry(64, b"x") is None


def test_a_record_that_is_cut_is_an_error() -> None:
    record = codecs.SESSION_MESSAGE_HEADER.encode(leadership_term_id=1, cluster_session_id=7, timestamp=1)
    with pytest.raises(DecodeError):
        decode_entry(64, (200).to_bytes(2, "little") + record[2:])
    with pytest.raises(DecodeError):
        decode_entry(64, codecs.TIMER_EVENT.encode(leadership_term_id=1, correlation_id=1, timestamp=1)[:-1])


def test_a_time_is_found_in_whichever_term_it_is(world: LogWorld) -> None:
    world.start()
    world.commit(world.append(range(400)))  # about 600 KB: ten terms of 64 KiB
    world.until(lambda: len(world.seen) == 400)
    assert world.follower is not None
    world.follower.close()
    world.follower = None
    settings = [node.settings for node in world.nodes_of_log]
    ends = [0, *(entry.position for entry in world.seen)]

    def find(time: int | None) -> int:
        search = StartSearch(world.client_node.client, settings, time, 0.5, decides=True)

        def look() -> bool:
            search.work(world.clock.now())
            return search.position is not None

        world.until(look)
        assert search.position is not None
        return search.position

    first_of_terms = [n for n in range(400) if ends[n] // 65536 != ends[n + 1] // 65536]
    assert len(first_of_terms) > 5
    for time in {0, 1, 200, 399, *first_of_terms[::2], *(n + 1 for n in first_of_terms[1::2])}:
        found = find(time)
        assert ends[time] <= found < ends[time + 1], f"time={time}: the entry with this time is the next one"
    assert (find(-5), find(None)) == (0, 0)
    assert find(400) == ends[-1]
    for node in world.nodes_of_log[:2]:
        world.crash(node)
    began_ns = world.clock.now()
    assert find(None) == 0
    assert world.clock.now() - began_ns < 2 * S, "two nodes that are down are asked first"


def refusal_of(world: LogWorld, follower: LogFollower, timeout_ns: int = 20 * S) -> str:
    """What the follower raises in the end."""
    raised: list[ArchiveError] = []

    def has_raised() -> bool:
        follower.work(world.clock.now())
        follower.poll(world.seen.append, 20)
        try:
            follower.check_allowed()
        except ArchiveError as error:
            raised.append(error)
        return bool(raised)

    world.until(has_raised, timeout_ns=timeout_ns)
    assert raised[0].code == ErrorCode.INVALID_POSITION
    follower.close()
    return raised[0].message


def start_with_log(world: LogWorld) -> int:
    """Two hundred messages, committed at all nodes: the end."""
    world.start()
    end = world.append(range(200))
    world.commit(end)
    world.until(lambda: len(world.seen) == 200)
    return end


@pytest.mark.parametrize("kind", ["log", "executed", "repeats"])
def test_a_position_inside_a_record_is_refused_with_those_around_it(world: LogWorld, kind: str) -> None:
    start_with_log(world)
    before, after = world.seen[99].position, world.seen[100].position
    for position in (before + 32, before + 5):
        follower = make_follower(world, kind, position)
        assert refusal_of(world, follower) == (
            f"position={position} is inside a record of the log: the nearest records begin at position={before} and "
            f"position={after}"
        )


@pytest.mark.parametrize("kind", ["log", "executed", "repeats"])
def test_a_position_beyond_the_end_is_refused_after_a_while(world: LogWorld, kind: str) -> None:
    end = start_with_log(world)
    follower = make_follower(world, kind, end + 32)
    began_ns = world.clock.now()
    expected = f"position={end + 32} is beyond the end of the log, which is position={end}: begin there or below"
    assert refusal_of(world, follower) == expected
    assert 3 * S <= world.clock.now() - began_ns <= 10 * S


def make_follower(world: LogWorld, kind: str, position: int) -> LogFollower:
    settings = [node.settings for node in world.nodes_of_log]
    client = world.client_node.client
    if kind == "log":
        return LogFollower(client, settings, position, 0.5, goes_live=True)
    return ExecutedFollower(client, settings, position, 0.5, repeats=kind == "repeats", goes_live=True)


def test_a_position_that_is_committed_a_little_later_is_read_from(world: LogWorld) -> None:
    """All nodes lag, for less than the patience: nothing is refused, and nothing is left out."""
    world.start()
    half = world.append(range(100))
    end = world.append(range(100, 200))
    world.commit(half - 32)
    world.follower = None
    world.seen = []
    follower = make_follower(world, "log", half)
    world.follower = follower
    world.run(2500 * MS)
    follower.check_allowed()
    world.commit(end)
    world.until(lambda: len(world.seen) == 100)
    follower.check_allowed()
    assert world.numbers == list(range(100, 200))


def test_two_nodes_that_lag_refuse_nothing_while_the_leader_is_silent(world: LogWorld) -> None:
    """What only the third one has committed so far may be what is asked for."""
    world.start(leader=0)
    end = world.append(range(100), nodes=[0])
    world.commit(end, nodes=[0])
    world.follower = None
    world.crash(world.nodes_of_log[0])
    follower = make_follower(world, "log", end)
    world.follower = follower
    world.run(10 * S)
    follower.check_allowed()
    assert "so far" in follower.problem


def test_one_node_alone_does_not_refuse_a_position(world: LogWorld) -> None:
    """The first one is damaged, or has other records: two others have one that begins there."""
    world.start()
    world.append(range(1000, 1200), nodes=[0])
    end = world.append(range(200), nodes=[1, 2])
    world.commit(end)
    positions = [message.position for message in world.nodes_of_log[1].server.archive.reader(0).messages()]
    world.follower = make_follower(world, "log", positions[99])
    world.seen = []
    world.until(lambda: len(world.seen) == 100)
    world.follower.check_allowed()
    assert world.numbers == list(range(100, 200))
