"""How a replay ends, seen from the client: with everything, or with what the archive says, after all that it sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.archive.client import control_requests
from ordo.archive.client.replay import RecordedMessage, Replay
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ResponseCode
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError
from ordo.runtime.sbe import Message
from tests.archive.control_world import Caller, ControlWorld, Server
from tests.archive.test_control import record
from tests.fuzz.answer_doors import SESSION, LyingArchive
from tests.transport.driver_world import MS, S

SENT = [bytes([number]) * 500 for number in range(60)]
CONTROL = "aeron:udp?endpoint=10.0.0.1:8010"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControlWorld]:
    world = ControlWorld(tmp_path)
    yield world
    world.close()


def recorded(world: ControlWorld, sent: list[bytes] = SENT) -> tuple[Server, Caller]:
    server = world.server()
    caller = world.remote_caller(server)
    record(world, server, caller, sent)
    return server, caller


def open_replay(world: ControlWorld, caller: Caller, length: int | None = None) -> Replay:
    replay = Replay(caller.session, 0, now_ns=world.clock.now(), position=0, length=length)
    world.until(lambda: replay.work(world.clock.now()) and replay.is_open)
    return replay


def take_all(world: ControlWorld, replay: Replay) -> list[bytes]:
    found: list[RecordedMessage] = []

    def step() -> bool:
        replay.work(world.clock.now())
        replay.poll(found.append, limit=7)
        return replay.is_done

    world.until(step)
    return [message.payload for message in found]


class Described:
    """A replay of an archive that says whatever the test wants, in whichever order."""

    def __init__(self, world: ControlWorld) -> None:
        self.world = world
        self.archive = LyingArchive(world)
        self.caller = world.caller(world.node("10.0.0.9").client, CONTROL, "aeron:udp?endpoint=10.0.0.9:0")
        self._replays: list[Replay] = []
        self._until(lambda: self.archive.is_heard)
        self.archive.answer(self._asked(codecs.AUTH_CONNECT_REQUEST))
        self._until(lambda: self.caller.session.is_connected)
        self.replay = Replay(self.caller.session, 0, now_ns=world.clock.now(), position=0)
        self._replays.append(self.replay)
        self._until(lambda: self.archive.asked[-1][0] is codecs.REPLAY_REQUEST)
        self.archive.begin_replay(0)
        self.publication = self.archive.replays[0]
        self.archive.answer(self._asked(codecs.REPLAY_REQUEST), self.publication.session_id)
        self._until(lambda: self.replay.is_open)

    def _asked(self, message: Message) -> int:
        """The correlation id of a request."""
        return int(next(values.correlation_id for one, values in self.archive.asked if one is message))

    def _until(self, is_true: Callable[[], bool]) -> None:
        def step() -> bool:
            self.archive.work()
            for replay in self._replays:
                replay.work(self.world.clock.now())
            return is_true()

        self.world.until(step)

    def send(self, count: int) -> None:
        self.world.until(lambda: self.publication.is_connected)
        self.world.send(self.publication, SENT[:count])

    def refuse(self) -> None:
        ids = {"control_session_id": SESSION, "correlation_id": self._asked(codecs.REPLAY_REQUEST)}
        told = {"code": ResponseCode.ERROR, "relevant_id": 0, "error_message": "it is damaged"}
        self.archive.say(codecs.CONTROL_RESPONSE.encode(version=0x010C00, **ids, **told))


@pytest.mark.parametrize("is_closed", [True, False], ids=["the stream ends", "the stream stays"])
def test_the_reason_of_an_end_does_not_overtake_the_messages_before_it(world: ControlWorld, is_closed: bool) -> None:
    """A reader that was slow lost what it had not taken when an archive said that what follows is damaged."""
    described = Described(world)
    described.send(20)
    described.refuse()
    world.run(3 * S, step_ns=5 * MS)
    described.replay.work(world.clock.now())
    if is_closed:
        described.publication.close()
    assert take_all(world, described.replay) == SENT[:20]
    assert isinstance(described.replay.error, ArchiveError)
    assert "it is damaged" in described.replay.error.message
    assert not described.caller.session.late_errors, "it was said once"


@pytest.mark.parametrize("length", [None, 200 * 8_032])
def test_a_replay_that_another_stops_has_not_come_to_the_end(world: ControlWorld, length: int | None) -> None:
    """The recording is longer than the window, so that not all of it is sent before any of it is taken."""
    server, caller = recorded(world, [bytes(8_000)] * 200)
    replay = open_replay(world, caller, length)
    world.remote_caller(server, "10.0.0.8").call(control_requests.stop_all_replays(0))
    assert 0 < len(take_all(world, replay)) < 200
    assert isinstance(replay.error, ArchiveTimeoutError)
    assert f"broken off at position={replay.position}, and the archive does not say why" in replay.error.message


def test_a_replay_without_a_length_ends_where_the_recording_does(world: ControlWorld) -> None:
    _, caller = recorded(world)
    replay = open_replay(world, caller)
    assert take_all(world, replay) == SENT
    assert replay.error is None
