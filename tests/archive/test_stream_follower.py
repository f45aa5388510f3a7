"""Followers of a recorded stream in virtual time: replayed, live, too slow, cut off, and begun anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.client import control_requests
from ordo.archive.client.replay import RecordedMessage
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.client.stream_follower import StreamFollower
from ordo.archive.protocol.codes import ErrorCode, is_final
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError, OtherRecordingError, UnknownRecordingError
from tests.archive.control_world import Caller, ControlWorld, Server
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, Node, S

ARCHIVE, READER, SENDER = "10.0.0.1", "10.0.0.9", "10.0.0.3"
STREAM = 7
CONTROL = f"aeron:udp?control={SENDER}:4000|control-mode=dynamic"
IPC = "aeron:ipc?term-length=64k"


class Followed:
    """A stream of a sender that waits for the archive alone, its recording, and followers of it."""

    def __init__(self, world: ControlWorld, *, is_local: bool = False) -> None:
        self.world = world
        self.server: Server = world.server(ARCHIVE)
        self.caller: Caller = world.remote_caller(self.server, READER)
        self.sender: Node = self.server.node if is_local else world.node(SENDER)
        self.reader: Node = self.server.node if is_local else next(n for n in world.nodes if n.address == READER)
        recorded = IPC if is_local else f"{CONTROL}|endpoint={ARCHIVE}:0|gtag=1"
        self.channel = "aeron:ipc?untethered-window-limit-timeout=1s" if is_local else f"{CONTROL}|endpoint={READER}:0"
        self.sent: list[bytes] = []
        self.random = random.Random(3)
        self.caller.call(control_requests.start_recording(recorded, STREAM, local=is_local, auto_stop=False))
        self.publish()

    def publish(self, **place: Any) -> None:
        """Begins the stream, or goes on with it where it ended."""
        channel = IPC if self.sender is self.server.node else f"{CONTROL}|fc=tagged,g:1/1|term-length=64k"
        channel += "".join(f"|{key.replace('_', '-')}={value}" for key, value in place.items())
        self.publication = self.sender.client.add_exclusive_publication(channel, STREAM)
        self.world.until(lambda: self.publication.is_connected)

    def offer(self, count: int) -> None:
        """Sends messages of one and of several fragments, as fast as the stream takes them."""
        for _ in range(count):
            message = b"%d " % len(self.sent) * self.random.randrange(1, 700)
            while self.publication.offer(message) <= 0:
                self.world.cycle()
            self.sent.append(message)


class Follower:
    """A follower, what it handed out, and where that came from."""

    def __init__(self, followed: Followed, recording_id: int = 0, **choices: Any) -> None:
        self.followed = followed
        self.got: list[RecordedMessage] = []
        self.changes: list[bool] = []
        world, reader = followed.world, followed.reader
        control = "aeron:ipc" if reader is followed.server.node else f"aeron:udp?endpoint={ARCHIVE}:8010"
        response = "aeron:ipc" if control == "aeron:ipc" else f"aeron:udp?endpoint={READER}:0"
        settings = ArchiveClientSettings(control_channel=control, response_channel=response)
        self.core = StreamFollower(
            reader.client,
            settings,
            recording_id,
            followed.channel,
            STREAM,
            position=choices.pop("position", None),
            silence_ns=200 * MS,
            on_change=self.changes.append,
            identity=choices.pop("identity", None),
        )
        self.world = world

    def step(self, limit: int = 50) -> None:
        self.core.work(self.world.clock.now())
        if self.core.error is not None:
            raise self.core.error
        self.core.poll(self.got.append, limit)

    def until(self, condition: Any, timeout_ns: int = 30 * S) -> None:
        def run() -> Any:
            self.step()
            return condition()

        self.world.until(run, timeout_ns, step_ns=200_000)

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.got]

    def until_live(self, first: int = 0) -> None:
        """Until it has everything that was sent from the `first` message on, and reads the live stream."""
        self.until(lambda: self.core.is_live and len(self.got) == len(self.followed.sent) - first)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControlWorld]:
    world = ControlWorld(tmp_path)
    yield world
    world.close()


@pytest.mark.parametrize("is_local", [False, True], ids=["udp", "ipc"])
def test_a_follower_that_was_too_slow_goes_back_to_the_replay_and_loses_nothing(
    world: ControlWorld, is_local: bool
) -> None:
    followed = Followed(world, is_local=is_local)
    followed.offer(200)
    follower = Follower(followed)
    follower.until_live()
    followed.offer(20)
    follower.until_live()
    assert follower.changes == [True]
    if is_local:
        stopped = follower.got[-1].position
        while followed.publication.position < stopped + (256 << 10):
            followed.offer(1)
            world.run(20 * MS, step_ns=1 * MS)
    else:
        followed.offer(800)
    assert follower.changes == [True]
    follower.until(lambda: follower.changes == [True, False], timeout_ns=1 * S)
    follower.until_live()
    followed.offer(20)
    follower.until_live()
    assert follower.changes == [True, False, True]
    assert follower.payloads == followed.sent
    assert len(followed.caller.call(control_requests.list_recordings())) == 1  # the replay is on a stream of its own
    follower.core.close()


def test_a_follower_that_is_cut_off_from_the_live_stream_reads_the_archive(world: ControlWorld) -> None:
    followed = Followed(world)
    followed.offer(10)
    follower = Follower(followed)
    follower.until_live()
    world.network.block(SENDER, READER)
    followed.offer(600)
    follower.until(lambda: len(follower.got) == len(followed.sent), timeout_ns=2 * S)
    assert not follower.core.is_live
    assert "stands still" in follower.core.problem
    world.network.unblock(SENDER, READER)
    follower.until_live()
    assert follower.payloads == followed.sent
    follower.core.close()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_paces_are_nothing_is_lost_or_repeated(tmp_path: Path, seed: int) -> None:
    """The sender never pauses; the follower does at random, and datagrams are lost."""
    world = ControlWorld(tmp_path, seed=seed, faults=Faults(loss=0.01))
    rng = random.Random(seed)
    followed = Followed(world)
    follower = Follower(followed)
    while len(followed.sent) < 1500:
        followed.offer(rng.randrange(8))
        if rng.random() < 0.01:
            followed.offer(200)
        world.run(rng.randrange(1, 10) * MS, step_ns=500_000)
        follower.step(rng.choice((1, 10, 100)))
    follower.until_live()
    assert follower.changes.count(True) >= 2
    assert follower.payloads == followed.sent
    follower.core.close()
    world.close()


def test_it_begins_anywhere_and_goes_on_where_another_one_was(world: ControlWorld) -> None:
    followed = Followed(world)
    followed.offer(100)
    first = Follower(followed)
    first.until(lambda: len(first.got) > 20)
    taken = first.got[20]
    first.core.close()
    second = Follower(followed, position=taken.position)
    second.until_live(first=21)
    assert second.payloads == followed.sent[21:]
    second.core.close()
    live = Follower(followed, position="live")
    live.until(lambda: live.core.is_live)
    assert live.got == []
    followed.offer(30)
    live.until(lambda: len(live.got) == 30)
    assert live.payloads == followed.sent[100:]
    live.core.close()


def test_a_stream_that_ended_goes_on_when_its_recording_is_extended(world: ControlWorld) -> None:
    followed = Followed(world)
    followed.offer(50)
    follower = Follower(followed)
    follower.until_live()
    followed.publication.close()
    follower.until(lambda: "was stopped" in follower.core.problem)
    assert not follower.core.is_live
    stopped = followed.server.archive.descriptor(0)
    followed.caller.call(control_requests.stop_recording(f"{CONTROL}|endpoint={ARCHIVE}:0|gtag=1", STREAM))
    followed.caller.call(control_requests.extend_recording(0, f"{CONTROL}|endpoint={ARCHIVE}:0|gtag=1", STREAM))
    term, offset = divmod(stopped.stop_position, 64 << 10)
    followed.publish(init_term_id=stopped.initial_term_id, term_id=stopped.initial_term_id + term, term_offset=offset)
    followed.offer(50)
    follower.until_live()
    assert follower.payloads == followed.sent
    follower.core.close()


def restarted(followed: Followed, count: int, *, is_alike: bool) -> list[bytes]:
    """Begins a publisher from 0 with the session id of the one that ends, also with its initial term id."""
    old = followed.publication
    place = {"init_term_id": old.initial_term_id, "term_id": old.initial_term_id, "term_offset": 0} if is_alike else {}
    old.close()
    followed.world.run(15 * S, step_ns=5 * MS)
    due, followed.sent = followed.sent, []
    followed.publish(session_id=old.session_id, **place)
    followed.offer(count)
    return due


@pytest.mark.parametrize("is_alike", [False, True], ids=["other term id", "same term id"])
@pytest.mark.parametrize("count", [0, 30, 400])
def test_a_publisher_that_began_anew_with_the_same_session_id_is_an_error(
    world: ControlWorld, count: int, is_alike: bool
) -> None:
    """All of the recording comes, nothing of the other stream, and it never counts as live."""
    followed = Followed(world)
    followed.offer(300)
    due = restarted(followed, count, is_alike=is_alike)
    follower = Follower(followed)

    def read() -> bool:
        followed.offer(len(followed.sent) < 400)
        return False

    with pytest.raises(ArchiveError, match=r"not the one of recording 0, which has ended: (initial term id|it is at)"):
        follower.until(read)
    assert follower.payloads == due
    assert follower.changes == []
    live = Follower(followed, position="live")
    with pytest.raises(ArchiveError, match="a publisher began anew with the same session id"):
        live.until(lambda: live.core.is_live)
    assert len(followed.caller.call(control_requests.list_recordings())) == 2
    newer = Follower(followed, recording_id=1)
    newer.until_live()
    assert newer.payloads == followed.sent
    newer.core.close()


def test_a_publisher_that_begins_anew_while_the_stream_is_live_is_an_error(world: ControlWorld) -> None:
    followed = Followed(world)
    followed.offer(300)
    follower = Follower(followed)
    follower.until_live()
    due = restarted(followed, 20, is_alike=True)
    with pytest.raises(ArchiveError, match="which has ended: it is at"):
        follower.until(lambda: False)
    assert follower.payloads == due
    assert follower.changes == [True, False]


def test_another_recording_in_the_place_of_the_one_that_was_read_is_an_error(world: ControlWorld) -> None:
    """As an archive has that was begun anew at its address, of a stream with the same session and term ids."""
    followed = Followed(world)
    followed.offer(50)
    follower = Follower(followed)
    follower.until_live()
    identity, due = follower.core.identity, list(followed.sent)
    followed.publication.close()
    follower.until(lambda: "was stopped" in follower.core.problem)
    archive = followed.server.archive
    archive.catalog.update(0, start_timestamp=archive.descriptor(0).start_timestamp + 1)
    with pytest.raises(OtherRecordingError, match=r"recording 0 of the archive at .* is another one \(identity"):
        follower.until(lambda: False)
    assert follower.payloads == due
    with pytest.raises(OtherRecordingError, match="than what was read before"):
        Follower(followed, identity=identity, position=follower.core.position).until(lambda: False)


def test_a_subscription_goes_on_in_the_recording_whose_identity_it_kept(world: ControlWorld) -> None:
    followed = Followed(world)
    followed.offer(50)
    first = Follower(followed)
    first.until_live()
    first.core.close()
    second = Follower(followed, identity=first.core.identity, position=first.core.position)
    followed.offer(10)
    second.until_live(50)
    assert second.core.identity == first.core.identity
    second.core.close()


def test_what_no_second_try_can_mend_ends_it(world: ControlWorld) -> None:
    followed = Followed(world)
    followed.offer(200)
    world.until(lambda: followed.caller.call(control_requests.recording_position(0)) == followed.publication.position)
    with pytest.raises(UnknownRecordingError, match="no recording 9"):
        Follower(followed, recording_id=9).until(lambda: False)
    followed.caller.call(control_requests.detach_segments(0, 128 << 10))
    with pytest.raises(
        ArchiveError, match="begins at position=131072 now: what it had at position=64 was deleted"
    ) as old:
        Follower(followed, position=64).until(lambda: False)
    assert old.value.code == ErrorCode.INVALID_POSITION


@pytest.mark.parametrize("is_stopped", [False, True], ids=["live", "stopped"])
def test_a_position_that_is_none_is_refused_and_not_tried_for_ever(world: ControlWorld, is_stopped: bool) -> None:
    followed = Followed(world)
    followed.offer(50)
    whole = Follower(followed)
    whole.until_live()
    whole.core.close()
    inside, end = whole.got[9].position + 32, whole.got[-1].position
    if is_stopped:
        followed.caller.call(control_requests.stop_recording_by_id(0))
    with pytest.raises(ArchiveError, match=f"position={inside}") as refused:
        Follower(followed, position=inside).until_live()
    assert refused.value.code == ErrorCode.INVALID_POSITION
    with pytest.raises(ArchiveError, match="is not a multiple of 32"):
        Follower(followed, position=inside + 1).until_live()
    began_ns = world.clock.now()
    text = f"position={end + 32} is beyond the end of recording 0, which is position={end}: begin there or below"
    with pytest.raises(ArchiveError, match=text) as beyond:
        Follower(followed, position=end + 32).until_live()
    assert beyond.value.code == ErrorCode.INVALID_POSITION
    assert 3 * S <= world.clock.now() - began_ns <= 6 * S


def test_only_refusals_that_last_are_final() -> None:
    temporary = (ErrorCode.MAX_REPLAYS, ErrorCode.STORAGE_SPACE, ErrorCode.ACTIVE_RECORDING, ErrorCode.GENERIC)
    lasting = (ErrorCode.INVALID_POSITION, ErrorCode.UNKNOWN_RECORDING, ErrorCode.UNAUTHORISED_ACTION)
    assert not any(is_final(ArchiveError("no", code=code)) for code in temporary)
    assert all(is_final(ArchiveError("no", code=code)) for code in lasting)
    assert is_final(UnknownRecordingError("none"))
    assert not is_final(ArchiveTimeoutError("late")) and not is_final(None) and not is_final(ValueError())
