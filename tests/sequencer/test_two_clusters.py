"""Nodes of two clusters under one reader: the second one is refused, with a line that says whose each is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ordo.archive.client import control_requests
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.control.session import ControlSession
from ordo.archive.protocol.codecs import LIST_RECORDINGS_REQUEST
from ordo.archive.protocol.own_codecs import LOG_IDENTITY, ToldIdentity
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Log, Origin, identity_text, parse_identity, told_log, unpack_identity
from ordo.follow.executed_follower import ExecutedFollower
from ordo.follow.position_check import PositionCheck
from ordo.follow.recordings.ranges import Access, OneNode, RangeReader, Survey, survey
from ordo.follow.start_search import StartSearch
from ordo.runtime.errors import ArchiveError, ConfigurationError, OtherClusterError
from tests.sequencer.test_log_follower import LogWorld
from tests.transport.driver_world import S

ONE, OTHER, BETWEEN = b"1" * 16, b"2" * 16, b"3" * 16


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.start()
    assert world.follower is not None
    world.follower.close()
    world.follower = None
    yield world
    if world.follower is not None:
        world.follower.close()
    world.close()


def told(identity: bytes, position: int = 0, executed_position: int = 1 << 40) -> ToldIdentity:
    return ToldIdentity(**unpack_identity(identity), identity_position=position, executed_position=executed_position)


def tell(world: LogWorld, *said: ToldIdentity | None) -> None:
    for node, one in zip(world.nodes_of_log, said, strict=True):
        node.told = one


def tell_past(world: LogWorld, *parts: tuple[int, bytes]) -> None:
    """Have all nodes say whose log theirs was: (up to here, identity), in ascending order."""
    for node in world.nodes_of_log:
        node.past = lambda position: next(identity for end, identity in parts if position <= end)


def is_refused(world: LogWorld) -> bool:
    assert world.follower is not None
    return world.follower.cluster.error is not None


def test_a_reader_that_changes_to_a_node_of_another_cluster_ends(world: LogWorld) -> None:
    tell(world, told(ONE), told(OTHER), told(OTHER))
    world.commit(world.append(range(50)))
    world.follow(0)
    world.until(lambda: len(world.seen) == 50)
    world.commit(world.append(range(50, 90), nodes=[1, 2]), nodes=[1, 2])
    world.until(lambda: is_refused(world), timeout_ns=5 * S)
    world.run(S)
    assert world.numbers == list(range(50))
    assert world.follower is not None
    first, second = (node.settings.control_channel for node in world.nodes_of_log[:2])
    wanted = (
        f"{second} is of the cluster with identity {OTHER.hex()[:12]}, and {first}, which was met first, of the one "
        f"with identity {ONE.hex()[:12]}: give the addresses of one cluster"
    )
    with pytest.raises(OtherClusterError, match=re.escape(wanted)):
        world.follower.check_allowed()


@pytest.mark.parametrize("said", [(None, None, None), (told(ONE), None, None), (None, told(ONE), told(ONE))])
def test_nodes_that_do_not_say_whose_log_they_have_are_read(
    world: LogWorld, said: tuple[ToldIdentity | None, ...]
) -> None:
    """Those of an earlier release, or below the protocol level."""
    tell(world, *said)
    world.commit(world.append(range(50)))
    world.follow(0)
    world.until(lambda: len(world.seen) == 50)
    assert world.follower is not None
    for index in (0, 1):
        dead = world.nodes_of_log[index]
        if world.follower.source_address == dead.settings.control_channel:
            world.crash(dead)
    world.commit(world.append(range(50, 90), nodes=[2]), nodes=[2])
    world.until(lambda: len(world.seen) == 90, timeout_ns=20 * S)
    world.follower.check_allowed()


@pytest.mark.parametrize(("read", "is_two"), [(20, False), (60, True)])
def test_a_restored_cluster_is_another_one_from_where_it_began(world: LogWorld, read: int, is_two: bool) -> None:
    """Up to there both logs are the same; a reader that has come further has read another one."""
    restored_position = world.append(range(50), nodes=[0, 1])
    end = world.append(range(50, 80), nodes=[0, 1])
    positions = [message.position for message in world.nodes_of_log[0].server.archive.reader(0).messages()]
    world.commit(end, nodes=[0, 1])
    tell(world, told(OTHER, restored_position), told(OTHER, restored_position), None)
    tell_past(world, (restored_position, ONE), (end, OTHER))
    world.follow(positions[read], cluster=KnownCluster(Origin(ONE, 0), "the kept position"))
    assert world.follower is not None
    world.until(lambda: is_refused(world) or len(world.seen) == 79 - read)
    assert is_refused(world) is is_two
    if not is_two:
        assert world.follower.cluster.origin == Origin(OTHER, restored_position)
        world.follower.check_allowed()
    else:
        assert world.seen == []


def begin_twice(world: LogWorld, first: int) -> tuple[list[int], int]:
    """Have all nodes go on with a log as another cluster's behind record `first`, and again behind record 49.

    Return where each record ends, and where the newest identity begins.
    """
    newest_position = world.append(range(50))
    end = world.append(range(50, 80))
    positions = [message.position for message in world.nodes_of_log[0].server.archive.reader(0).messages()]
    world.commit(end)
    tell(world, *[told(OTHER, newest_position + 32, end)] * 3)
    tell_past(world, (positions[first], ONE), (newest_position, BETWEEN), (end, OTHER))
    return positions, newest_position


@pytest.mark.parametrize(("first", "is_two"), [(10, True), (19, True), (20, False), (30, False)])
def test_what_was_read_has_to_be_a_beginning_of_a_log_that_two_clusters_went_on_with(
    world: LogWorld, first: int, is_two: bool
) -> None:
    """It ends before the newest begins, which says nothing: what the one between dropped may be in it."""
    positions, _ = begin_twice(world, first)
    world.follow(positions[20], cluster=KnownCluster(Origin(ONE, 0), "the kept position"))
    world.until(lambda: is_refused(world) or len(world.seen) == 59)
    assert is_refused(world) is is_two
    assert world.numbers == ([] if is_two else list(range(21, 80)))
    assert world.follower is not None
    if is_two:
        with pytest.raises(OtherClusterError, match="and the kept position of the one with identity 313131313131"):
            world.follower.check_allowed()


@pytest.mark.parametrize("is_known", [True, False])
def test_what_was_executed_before_is_asked_of_a_log_that_goes_on_with_what_was_read_alone(
    world: LogWorld, is_known: bool
) -> None:
    """The search for it begins at a snapshot, or with the log, before what the two have in common ends."""
    positions, _ = begin_twice(world, 10)
    if not is_known:
        tell_past(world, (positions[-1], b""))
    settings = [node.settings for node in world.nodes_of_log]
    known = KnownCluster(Origin(ONE, 0), "the kept position", "give those of the kept position")
    made = ExecutedFollower(world.client_node.client, settings, positions[20], 0.5, cluster=known)
    world.until(lambda: made.work(world.clock.now()) < 0 or known.error, timeout_ns=5 * S)
    with pytest.raises(OtherClusterError, match="the kept position"):
        made.check_allowed()
    made.close()


@pytest.mark.parametrize("knows_past", [True, False])
def test_where_no_node_can_show_whose_log_it_had_nothing_is_read(world: LogWorld, knows_past: bool) -> None:
    """Nodes of earlier releases do not tell it, and one may not know it any more."""
    positions, _ = begin_twice(world, 30)
    for node in world.nodes_of_log:
        node.past = lambda _: b""
        node.serve(knows_past=knows_past)
    world.follow(positions[20], cluster=KnownCluster(Origin(ONE, 0), "the kept position", "begin anew"))
    world.until(lambda: is_refused(world))
    reason = "does not know it" if knows_past else "is of a release that does not tell it"
    assert world.follower is not None
    with pytest.raises(OtherClusterError, match=f"up to position={positions[20]}.*: it {reason}.*: begin anew$"):
        world.follower.check_allowed()
    assert world.seen == []


def test_one_node_that_shows_whose_log_it_had_is_enough(world: LogWorld) -> None:
    positions, _ = begin_twice(world, 30)
    world.nodes_of_log[0].serve(knows_past=False)
    world.nodes_of_log[1].past = lambda _: b""
    world.follow(positions[20], cluster=KnownCluster(Origin(ONE, 0), "the kept position"))
    world.until(lambda: len(world.seen) == 59)
    assert world.numbers == list(range(21, 80))


@pytest.mark.parametrize("said", [told(ONE, 0, 64), None])
@pytest.mark.parametrize("is_two", [True, False])
def test_a_node_that_comes_to_the_position_shows_then_whose_log_it_has(
    world: LogWorld, said: ToldIdentity | None, is_two: bool
) -> None:
    """It said that it is of the reader's cluster, or nothing, when it had not come so far."""
    positions, newest_position = begin_twice(world, 10 if is_two else 79)
    world.commit(positions[5])
    tell(world, *[said] * 3)
    world.follow(positions[20], cluster=KnownCluster(Origin(ONE, 0), "the kept position"))
    world.run(S)
    assert world.seen == [] and not is_refused(world)
    if said is None:
        tell(world, *[told(OTHER, newest_position + 32) if is_two else told(ONE)] * 3)
    world.commit(positions[-1])
    world.until(lambda: is_refused(world) or len(world.seen) == 59)
    assert is_refused(world) is is_two
    assert world.numbers == ([] if is_two else list(range(21, 80)))


def test_a_node_that_lags_behind_a_newer_identity_is_read_where_its_log_is_known_to_be_the_same(
    world: LogWorld,
) -> None:
    """A reader that was told of a newer identity goes on at a node that has not come to it, up to there."""
    positions, newest_position = begin_twice(world, 49)
    tell(world, told(OTHER, newest_position + 32), told(ONE, 0, positions[40]), told(ONE, 0, positions[40]))
    world.commit(positions[40])
    world.follow(positions[20], cluster=KnownCluster(Origin(ONE, 0), "the kept position"))
    world.until(lambda: len(world.seen) == 20)
    assert world.follower is not None
    while world.follower.cluster.origin != Origin(OTHER, newest_position + 32):
        world.follower.leave_source("to the next one")
        world.run(S // 10)
    world.crash(world.nodes_of_log[0])
    world.commit(positions[45], nodes=[1, 2])
    world.until(lambda: len(world.seen) == 25)
    world.follower.check_allowed()


def test_a_kept_position_is_not_read_on_at_another_cluster(world: LogWorld) -> None:
    tell(world, *[told(OTHER)] * 3)
    world.commit(world.append(range(50)))
    world.follow(world.nodes_of_log[0].commit.value, cluster=KnownCluster(Origin(ONE, 0), "the kept position"))
    world.until(lambda: is_refused(world))
    assert world.follower is not None
    with pytest.raises(OtherClusterError, match="and the kept position of the one with identity 313131313131"):
        world.follower.check_allowed()


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("read", [20, 60])
def test_behind_its_identity_a_cluster_has_to_say_it(world: LogWorld, read: int, is_same: bool) -> None:
    """A cluster that was begun anew, and had not come so far when it was asked, was read on from a kept position.

    Nor is it read before: the kept identity begins behind the position, so it says nothing of what was read.
    """
    begun_position = world.append(range(50))
    end = world.append(range(50, 80))
    positions = [message.position for message in world.nodes_of_log[0].server.archive.reader(0).messages()]
    world.commit(begun_position)
    tell(world, *[told(OTHER, 0, begun_position - 64)] * 3)
    world.follow(positions[read], cluster=KnownCluster(Origin(ONE, begun_position), "the kept position"))
    world.commit(end)
    world.run(2 * S)
    assert world.seen == []
    tell(world, *[told(ONE, begun_position) if is_same else told(OTHER)] * 3)
    if is_same:
        world.until(lambda: len(world.seen) == 79 - read)
    else:
        world.until(lambda: is_refused(world))
        assert world.seen == []


@pytest.mark.parametrize("kind", ["time", "position", "requests"])
def test_what_is_found_at_one_cluster_is_not_used_at_another(world: LogWorld, kind: str) -> None:
    """Where a time is, whether a position is a boundary, and which requests were executed before."""
    end = world.append(range(50))
    world.commit(end)
    tell(world, *[told(OTHER)] * 3)
    known, client = KnownCluster(Origin(ONE, 0), "the session"), world.client_node.client
    settings = [node.settings for node in world.nodes_of_log]
    makers: dict[str, Callable[[], StartSearch | PositionCheck | ExecutedFollower]] = {
        "time": lambda: StartSearch(client, settings, 20, 0.5, known, decides=False),
        "position": lambda: PositionCheck(client, settings, end, known),
        "requests": lambda: ExecutedFollower(client, settings, end, 0.5, cluster=known),
    }
    made = makers[kind]()
    world.until(lambda: made.work(world.clock.now()) < 0 or known.error, timeout_ns=5 * S)
    with pytest.raises(OtherClusterError, match="the session"):
        made.check_allowed()
    made.close()


def test_clients_of_aeron_are_told_nothing_of_it(world: LogWorld) -> None:
    """They take a message of a schema that they do not know for an error."""
    tell(world, *[told(ONE)] * 3)
    server = world.nodes_of_log[0].server
    caller = world.remote_caller(server)
    (session,) = server.conductor.sessions.values()
    session.client_info = "name=java version=1.49.0 commit=abc"
    calls = (control_requests.list_recordings(), control_requests.list_recordings(from_recording_id=0, count=1))
    for call in calls:
        caller.call(call)
    assert caller.session.log_identity is None
    session.client_info = "name=log-reader implementation=ordo"
    for call in calls:
        caller.session.log_identity = None
        caller.call(call)
        assert told_log(caller.session.log_identity) == Log(ONE, 0, 1 << 40)


@pytest.mark.parametrize("answers_with", ["a place", "an identity"])
def test_an_archive_that_answers_a_listing_with_something_else_is_left(world: LogWorld, answers_with: str) -> None:
    server = world.nodes_of_log[0].server

    def answer(session: ControlSession, request: Any) -> None:
        made = session.responses
        place, identity = made.log_place(request.correlation_id, None), made.past_identity(request.correlation_id, ONE)
        made.send(place if answers_with == "a place" else identity)

    caller = world.remote_caller(server)
    server.conductor._handlers = {LIST_RECORDINGS_REQUEST.template_id: answer}
    with pytest.raises(ArchiveError, match=r"answers with a (LogPlace|PastIdentity), which is no answer to it"):
        caller.call(control_requests.list_recordings())


def test_what_cannot_be_an_identity_counts_for_nothing() -> None:
    for fields in ({"identity_position": -1}, {"executed_position": -1}, unpack_identity(b"")):
        values = LOG_IDENTITY.encode(**{**told(ONE)._asdict(), "session_id": 1, "correlation_id": 2, **fields})
        assert told_log(LOG_IDENTITY.decode(values)) is None
    assert told_log(None) is None


def test_an_identity_is_kept_as_text() -> None:
    origin = Origin(bytes(range(16)), 4096)
    assert identity_text(origin) == "000102030405060708090a0b0c0d0e0f@4096"
    assert parse_identity(identity_text(origin)) == origin
    for text in ("", "000102@4", identity_text(origin)[:-4], identity_text(origin) + "x", "0" * 32 + "@-1"):
        with pytest.raises(ConfigurationError, match="names no cluster"):
            parse_identity(text)


def test_a_reader_that_has_gone_over_to_a_restored_cluster_stays_there() -> None:
    known = KnownCluster()
    first, restored = Log(ONE, 0, 2000), Log(OTHER, 1000, 3000)
    assert known.admits(first, "a")
    known.position = 500
    assert known.admits(restored, "b"), "up to 1000 both are one log"
    assert known.admits(first, "a"), "it was not read yet"
    known.adopt(restored, "b")
    known.position = 900
    assert not known.admits(first, "a")


def access_to(world: LogWorld) -> Access:
    """To the nodes of a world, node0 to node2; who waits has the world go on."""
    nodes = {f"node{index}": node for index, node in enumerate(world.nodes_of_log)}

    class WorldAccess(Access):
        def settings(self, address: str) -> ArchiveClientSettings:
            return nodes[address].settings

        def transport(self) -> Any:
            def drive(*_: object) -> int:
                world.cycle()
                return world.clock.now()

            made = mock.Mock(client=world.client_node.client, clock=world.clock)
            made.drive.side_effect = made.park.side_effect = drive
            return made

    return WorldAccess()


def surveyed(world: LogWorld, *indexes: int) -> Survey:
    """What a plan is told by nodes, in this order."""
    return survey([f"node{index}" for index in indexes], access_to(world))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("end_of_former", "is_two"), [(1024, False), (2048, True)])
def test_a_plan_reads_no_nodes_of_two_clusters_whichever_answers_first(
    world: LogWorld, order: tuple[int, int], end_of_former: int, is_two: bool
) -> None:
    """Nor a node that has not come yet to where the newest identity begins: the log may go on otherwise there."""
    world.commit(world.append(range(50)))
    tell(world, told(ONE, 0, end_of_former), told(OTHER, 1056, 4096), None)
    if is_two:
        with pytest.raises(OtherClusterError, match="which was met first, of the one with identity"):
            surveyed(world, *order)
    else:
        found = surveyed(world, *order)
        assert (found.answered, found.origin) == (("node1",), Origin(OTHER, 1056))
        assert "does not say yet that it is of the cluster" in found.silent["node0"]


def test_a_snapshot_is_longer_than_the_log_that_its_node_has_executed(world: LogWorld) -> None:
    """Where a read of it goes on is no position of the log: nothing has to be shown about that."""
    end = world.append(range(50))
    world.commit(end)
    positions = [message.position for message in world.nodes_of_log[0].server.archive.reader(0).messages()]
    tell(world, told(ONE, 0, 64), None, None)
    tell_past(world, (64, ONE), (end, b""))
    of_node, access = OneNode(0), access_to(world)
    with RangeReader(["node0"], positions[20], end, access, origin=Origin(ONE, 0), of_node=of_node) as reader:
        assert sum(len(block) for _, block in reader) == end - positions[20]
