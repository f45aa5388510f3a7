"""What readers hand out of requests that were sent again, wherever they begin: what is executed, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.cluster.wire.streams import SERVICE_SNAPSHOT_STREAM_ID
from ordo.follow.beginnings import AtSequence, AtTime
from ordo.follow.entries import EntryKind, LogEntry, decode_entry
from ordo.follow.executed_follower import ExecutedFollower, NumberedFollower, filter_of, has_all_numbered
from ordo.follow.executions import REQUESTS, Executions
from ordo.follow.reader import LogReader
from ordo.follow.start_search import StartSearch
from ordo.runtime.errors import ArchiveError, ConfigurationError
from ordo.service_api.service import TimeUnit
from ordo.transport.client.client_transport import ClientTransport
from tests.sequencer.request_log import RequestLog
from tests.sequencer.test_log_follower import LogWorld
from tests.transport.driver_world import MS


class RepeatingWorld(LogWorld):
    """Nodes whose log has requests that were sent again, and snapshots."""

    def fill(self, count: int) -> None:
        """Appends records to all logs, and commits them."""
        self.start()
        assert self.follower is not None
        self.follower.close()
        self.follower = None
        self.records: list[tuple[int, bytes]] = []
        self.log = RequestLog(5, self._append_record, has_arrivals=True)
        for _ in range(count):
            self.log.write()
        self.commit(self.records[-1][0])
        table = Executions()
        found = [decode_entry(position, record) for position, record in self.records]
        self.marked = [table.mark(entry) for entry in found if entry is not None]
        self.executed = [one for one in self.marked if not one.is_repeat]

    def _append_record(self, record: bytes) -> int:
        for node in self.nodes_of_log:
            self.send(node.publication, [record])
        self.records.append((self.nodes_of_log[0].publication.position, record))
        return self.records[-1][0]

    def add_snapshot(self, position: int, state: bytes = b"state" * 1000, *, is_whole: bool = True) -> None:
        """Records a snapshot of a position at all nodes."""
        table = Executions(numbers=True)
        for at, record in self.records:
            entry = decode_entry(at, record) if at <= position else None
            if entry is not None:
                table.mark(entry)
        sessions = [
            SimpleNamespace(id=one, response_stream_id=102, response_channel="c", encoded_principal=principal)
            for one, principal in table._sessions.items()
        ]
        requests, ids = tuple(table._table.snapshot()), tuple(table._table.ids.snapshot())
        messages = list(
            container_snapshot.encode(
                ServiceSnapshot(
                    position,
                    0,
                    TimeUnit.MILLIS,
                    1,
                    tuple(sessions),
                    (),
                    requests,
                    request_ids=ids,
                    takes_ids=True,
                    sequence=table.sequence.last,
                    keeps_sequence=True,
                )
            )
        )
        if not is_whole:
            del messages[-1]
        for node in self.nodes_of_log:
            channel = "aeron:ipc?alias=snapshot|term-length=64k"
            recordings = len(node.server.archive.recordings())
            node.server.archive.record_subscription(channel, SERVICE_SNAPSHOT_STREAM_ID)
            publication = node.server.node.client.add_exclusive_publication(channel, SERVICE_SNAPSHOT_STREAM_ID)
            self.until(lambda: len(node.server.archive.recordings()) > recordings)  # noqa: B023
            self.send(publication, [*messages, state])
            self.run(5 * MS)
            publication.close()
        self.run(50 * MS)

    def read(self, position: int | None, *, repeats: bool = False, kinds: list[EntryKind] | None = None) -> None:
        """Begins to read from a position on; `seen` has what was handed out."""
        if self.follower is not None:
            self.follower.close()
        self.seen = []
        nodes = [node.settings for node in self.nodes_of_log]
        chosen = filter_of(kinds, None, decides=True)
        self.follower = ExecutedFollower(
            self.client_node.client, nodes, position, 0.5, repeats=repeats, record_filter=chosen, goes_live=True
        )

    def read_from(self, begin: AtSequence | AtTime, *, repeats: bool = False) -> None:
        """Begins to read with a number, or a time."""
        if self.follower is not None:
            self.follower.close()
        self.seen = []
        nodes = [node.settings for node in self.nodes_of_log]
        chosen = filter_of(None, None, decides=True, numbers=isinstance(begin, AtSequence))
        self.follower = ExecutedFollower(
            self.client_node.client, nodes, begin, 0.5, repeats=repeats, record_filter=chosen, goes_live=True
        )

    def numbered(self) -> list[LogEntry]:
        """What a reader is to be given that asks for numbers."""
        table = Executions(numbers=True)
        found = [decode_entry(position, record) for position, record in self.records]
        return [one for one in (table.mark(entry) for entry in found if entry is not None) if not one.is_repeat]

    def read_all(self, position: int, wanted: list[LogEntry], *, repeats: bool = False) -> None:
        self.read(position, repeats=repeats)
        self.until(lambda: len(self.seen) >= len(wanted))
        self.run(20 * MS)
        assert self.seen == wanted


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RepeatingWorld]:
    world = RepeatingWorld(tmp_path)
    yield world
    if world.follower is not None:
        world.follower.close()
    world.close()


def test_from_the_beginning_each_request_comes_once_and_the_copies_come_if_asked_for(world: RepeatingWorld) -> None:
    world.fill(300)
    copies = [one for one in world.marked if one.is_repeat]
    assert len(copies) > 50
    world.read_all(0, world.executed)
    world.read_all(0, world.marked, repeats=True)


def test_a_reader_that_begins_in_the_middle_leaves_out_what_was_executed_before(world: RepeatingWorld) -> None:
    """Without a snapshot it looks at the log from its beginning; with snapshots, from the newest that is not later."""
    world.fill(300)
    places = [0, 120, 150, 151, 152, 240]
    for index in places:
        position = world.records[index][0]
        world.read_all(position, [one for one in world.executed if one.position > position])
    for index in (100, 150, 200):
        world.add_snapshot(world.records[index][0])
    world.add_snapshot(world.records[210][0], is_whole=False)
    for index in places:
        position = world.records[index][0]
        world.read_all(position, [one for one in world.executed if one.position > position])


def test_live_is_what_was_not_executed_before(world: RepeatingWorld) -> None:
    world.fill(200)
    world.add_snapshot(world.records[120][0])
    world.read(None)
    world.until(lambda: world.follower is not None and world.follower.source_address)
    count = len(world.records)
    for _ in range(200):
        world.log.write()
    world.commit(world.records[-1][0])
    table = Executions()
    found = [table.mark(entry) for at, record in world.records if (entry := decode_entry(at, record)) is not None]
    wanted = [one for one in found if one.position > world.records[count - 1][0] and not one.is_repeat]
    world.until(lambda: len(world.seen) >= len(wanted))
    assert world.seen == wanted


def test_nodes_send_what_decides_even_if_it_is_not_wanted(world: RepeatingWorld) -> None:
    world.fill(300)
    world.read(0, kinds=[EntryKind.REQUEST])
    wanted = [one for one in world.executed if one.kind in REQUESTS]
    world.until(lambda: len([one for one in world.seen if one.kind in REQUESTS]) >= len(wanted))
    assert [one for one in world.seen if one.kind in REQUESTS] == wanted
    assert EntryKind.MESSAGE not in {one.kind for one in world.seen}


def delete_the_beginning(world: RepeatingWorld) -> int:
    """Where the logs begin now."""
    for node in world.nodes_of_log:
        archive = node.server.archive
        log = archive.descriptor(0)
        archive.purge_segments(log.recording_id, archive.segment_base(log.recording_id, world.records[-1][0]))
    begin = world.nodes_of_log[0].server.archive.descriptor(0).start_position
    assert begin > 0
    return int(begin)


def find_start(world: RepeatingWorld, time: int | None, *, decides: bool) -> int:
    nodes = [node.settings for node in world.nodes_of_log]
    search = StartSearch(world.client_node.client, nodes, time, 0.5, decides=decides)

    def look() -> bool:
        search.work(world.clock.now())
        return search.position is not None

    world.until(look)
    search.close()
    assert search.position is not None
    return search.position


def test_who_begins_first_begins_where_it_is_known_what_is_executed(world: RepeatingWorld) -> None:
    """That is the oldest snapshot, where the beginning of the log was deleted; also for a time before that."""
    world.fill(900)
    assert (find_start(world, None, decides=True), find_start(world, 0, decides=True)) == (0, 0)
    begin = delete_the_beginning(world)
    assert {find_start(world, time, decides=decides) for time in (None, 0) for decides in (False, True)} == {begin}
    late = [one for one, _ in world.records if one > begin]
    oldest, newest = late[len(late) // 3], late[len(late) // 2]
    world.add_snapshot(world.records[3][0])  # of log that is gone
    world.add_snapshot(late[5], is_whole=False)
    world.add_snapshot(oldest)
    world.add_snapshot(newest)
    assert (find_start(world, None, decides=False), find_start(world, None, decides=True)) == (begin, oldest)
    assert (find_start(world, 0, decides=False), find_start(world, 0, decides=True)) == (begin, oldest)
    at_newest = next(one.timestamp for one in world.marked if one.position >= newest)
    time = next(one.timestamp for one in world.marked if one.timestamp > at_newest)
    assert find_start(world, time, decides=True) >= newest
    world.read_all(oldest, [one for one in world.executed if one.position > oldest])
    world.read(begin)
    with pytest.raises(ArchiveError, match=f"begin at position={oldest}, a snapshot's, or later"):
        world.until(lambda: False)


def test_what_nobody_knows_is_an_error_and_not_executed(world: RepeatingWorld) -> None:
    """The beginning of the log was deleted, and there is no snapshot of where the reader begins."""
    world.fill(900)
    begin = delete_the_beginning(world)
    position = next(at for at, _ in world.records if at > begin)
    world.read(position)
    with pytest.raises(ArchiveError, match=f"the log begins at position={begin}.*repeats=True"):
        world.run(2000 * MS)
    assert all(one.kind not in REQUESTS for one in world.seen)
    world.read(position, repeats=True)
    world.until(lambda: len(world.seen) > 20)
    assert {one.is_repeat for one in world.seen if one.kind in REQUESTS} == {None}


def test_a_reader_begins_at_the_snapshot_before_a_number(world: RepeatingWorld) -> None:
    world.fill(300)
    wanted = world.numbered()
    numbers = [one.sequence for one in wanted if one.sequence]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 50
    last = {0: 0}
    for index in (100, 150, 200):
        position = world.records[index][0]
        world.add_snapshot(position)
        last[position] = max(one.sequence for one in wanted if one.position <= position)
    _, second, third, _ = last.values()
    for sequence in (1, second, third + 1, numbers[-1], numbers[-1] + 1000):
        begin = max(position for position, before in last.items() if before < sequence)
        rest = [one for one in wanted if one.position > begin]
        world.read_from(AtSequence(sequence))
        world.until(lambda: len(world.seen) >= len(rest))  # noqa: B023
        assert world.seen == rest


def test_numbers_that_nobody_knows_any_more_are_an_error(world: RepeatingWorld) -> None:
    """The beginning of the log was deleted, and the snapshots are of later messages."""
    world.fill(900)
    delete_the_beginning(world)
    snapshot = world.records[890][0]
    world.add_snapshot(snapshot)
    world.read_from(AtSequence(1))
    with pytest.raises(ArchiveError, match=f"number of messages.*begin at position={snapshot}, .*, or at a position"):
        world.until(lambda: world.seen)
    assert world.seen == []


@pytest.mark.parametrize("repeats", [False, True])
def test_a_reader_begins_with_the_first_entry_of_a_time(world: RepeatingWorld, repeats: bool) -> None:
    world.fill(300)
    world.add_snapshot(world.records[120][0])
    for index in (0, 90, 200, 299):
        time = world.marked[index].timestamp
        rest = [one for one in (world.marked if repeats else world.executed) if one.timestamp >= time]
        world.read_from(AtTime(time), repeats=repeats)
        world.until(lambda: len(world.seen) >= len(rest))  # noqa: B023
        assert [one[:7] for one in world.seen] == [one[:7] for one in rest]


@pytest.mark.parametrize("begin", [AtSequence(0), AtSequence(2**63), AtTime(-1), AtTime(10**19), 2**63])
def test_a_beginning_that_cannot_be_one_is_refused(
    begin: int | AtSequence | AtTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a driver is begun, which nobody would end."""
    monkeypatch.setattr(ClientTransport, "embedded", None)
    with pytest.raises(ConfigurationError, match="allowed are"):
        LogReader(["localhost:1"], from_position=begin)


def test_a_reader_of_everything_tells_numbers_wherever_it_begins(world: RepeatingWorld) -> None:
    """It takes what it counts from out of the newest snapshot before, or the beginning of the log."""
    world.fill(300)
    wanted = world.numbered()
    nodes = [node.settings for node in world.nodes_of_log]

    def read(begin: int | AtTime, rest: list[LogEntry], *, repeats: bool = False) -> None:
        if world.follower is not None:
            world.follower.close()
        world.seen = []
        world.follower = NumberedFollower(
            world.client_node.client, nodes, begin, 0.5, repeats=repeats, record_filter={}, goes_live=True
        )
        world.until(lambda: len(world.seen) >= len(rest))
        assert world.seen == rest

    places = [0, 90, 150, 240]
    for add_snapshots in (False, True):
        if add_snapshots:
            for index in (100, 200):
                world.add_snapshot(world.records[index][0])
        for index in places:
            position = world.records[index][0]
            read(position, [one for one in wanted if one.position > position])
    time = world.marked[120].timestamp
    read(AtTime(time), [one for one in wanted if one.timestamp >= time])
    read(0, wanted)
    assert sum(one.sequence > 0 for one in wanted) > 50


def test_a_number_that_nobody_knows_any_more_is_none(world: RepeatingWorld) -> None:
    """The beginning of the log was deleted: messages come without one, and requests are an error as ever."""
    world.fill(900)
    begin = delete_the_beginning(world)
    position = next(at for at, _ in world.records if at > begin)
    world.seen = []
    nodes = [node.settings for node in world.nodes_of_log]
    world.follower = NumberedFollower(world.client_node.client, nodes, position, 0.5, record_filter={})
    with pytest.raises(ArchiveError, match="whether the request"):
        world.until(lambda: False)
    assert {one.sequence for one in world.seen} <= {0}
    world.follower.close()
    world.follower = None
    snapshot = world.records[890][0]
    world.add_snapshot(snapshot)
    world.seen = []
    world.follower = NumberedFollower(world.client_node.client, nodes, snapshot, 0.5, record_filter={})
    rest = [one for one in world.numbered() if one.position > snapshot]
    world.until(lambda: len(world.seen) >= len(rest))
    assert world.seen == rest


@pytest.mark.parametrize(
    ("kinds", "session_ids", "has_all"),
    [
        (None, None, True),
        ([EntryKind.MESSAGE, EntryKind.REQUEST, EntryKind.OUTPUT, EntryKind.TIMER], None, True),
        ([EntryKind.MESSAGE, EntryKind.REQUEST], None, False),
        (None, [7], False),
        (None, [], False),
    ],
)
def test_who_is_not_sent_all_messages_is_told_no_numbers(
    kinds: list[EntryKind] | None, session_ids: list[int] | None, has_all: bool
) -> None:
    assert has_all_numbered(kinds, session_ids) is has_all
