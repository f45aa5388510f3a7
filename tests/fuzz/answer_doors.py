"""The door of an archive's client: whatever an archive answers, and sends as a replay, the client has what it asked for
or one clear error, and another archive serves it as before."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ordo.archive.client import control_requests
from ordo.archive.client.replay import RecordedMessage, Replay
from ordo.archive.client.session import ArchiveSession, Reply
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ErrorCode, RecordingSignal, ResponseCode
from ordo.runtime.errors import DecodeError, OrdoError
from ordo.runtime.sbe import Message, decode_one_of
from ordo.transport.streams.publication import ExclusivePublication
from tests.archive.control_world import ControlWorld
from tests.fuzz.cluster_doors import Folders
from tests.fuzz.driver_doors import Finding, check_errors
from tests.fuzz.engine import Fields, Step, draw_fields, pack, unpack
from tests.fuzz.filled import fill
from tests.transport.driver_world import MS, S

LIAR, HONEST, CLIENT = "10.0.0.1", "10.0.0.2", "10.0.0.9"
CONTROL_STREAM = 10
SESSION = 7
STEPS_MAX = 32
REPLAYS_MAX = 4
TIMES_NS = (1 * MS, 20 * MS, 500 * MS, 6 * S)
ANSWERS: tuple[Message, ...] = (
    codecs.CONTROL_RESPONSE,
    codecs.RECORDING_DESCRIPTOR,
    codecs.RECORDING_SUBSCRIPTION_DESCRIPTOR,
    codecs.RECORDING_SIGNAL_EVENT,
    codecs.CHALLENGE,
    codecs.PING,
)
CALLS: tuple[Callable[[], control_requests.Call[Any]], ...] = (
    partial(control_requests.list_recordings, count=3),
    control_requests.list_recordings,
    partial(control_requests.describe_recording, 1),
    partial(control_requests.start_position, 1),
    partial(control_requests.max_recorded_position, 1),
    partial(control_requests.find_last_recording, "aeron:ipc", 5, 6),
    partial(control_requests.start_recording, "aeron:ipc", 5),
    partial(control_requests.stop_recording_by_id, 1),
    partial(control_requests.list_recorded_streams, count=2),
)
REPLAY_PARTS = ((0, None), (0, 4096), (64, 4096), (None, None), (None, 128), (65536, 64))
"""Position, None where the recording begins, and length in bytes, None without end."""


class LyingArchive:
    """Answers nothing but a connect request by itself, and whatever it is told to."""

    def __init__(self, world: ControlWorld) -> None:
        self.client = world.node(LIAR).client
        self.asked: list[tuple[Message, Any]] = []
        self.replays: list[ExclusivePublication] = []
        self._requests = self.client.add_subscription(f"aeron:udp?endpoint={LIAR}:8010", CONTROL_STREAM)
        self._responses: list[ExclusivePublication] = []

    def work(self) -> None:
        self._requests.poll_messages(self._on_request, 50)

    def _on_request(self, payload: bytes, _: Any) -> None:
        found = decode_one_of(codecs.SCHEMAS, payload)
        if found is None:
            raise Finding(f"a request that is none: {payload[:40]!r}")
        message, values = found
        self.asked.append(found)
        if message is codecs.AUTH_CONNECT_REQUEST:
            channel, stream_id = values.response_channel, values.response_stream_id
            self._responses.append(self.client.add_exclusive_publication(channel, stream_id))
        elif message is codecs.ARCHIVE_ID_REQUEST:
            self.answer(values.correlation_id)

    def answer(self, correlation_id: int, relevant_id: int = 0) -> None:
        """An answer that is in order."""
        self.say(
            codecs.CONTROL_RESPONSE.encode(
                control_session_id=SESSION,
                correlation_id=correlation_id,
                relevant_id=relevant_id,
                code=ResponseCode.OK,
                version=0x010C00,
            )
        )

    @property
    def is_heard(self) -> bool:
        return any(one.is_connected for one in self._responses)

    def say(self, message: bytes) -> None:
        if self._responses:
            self._responses[-1].offer(message or b"\0")

    def known(self) -> dict[str, Any]:
        """Numbers that a client waits for, or has heard of; those asked for last come first."""
        ids = [values.correlation_id for _, values in reversed(self.asked) if hasattr(values, "correlation_id")]
        return {
            "correlation_id": ids[:6] or [0],
            "control_session_id": (SESSION, SESSION, SESSION, 0, -1),
            "relevant_id": (0, *(one.session_id for one in self.replays), *ErrorCode),
            "code": (*ResponseCode, ResponseCode.OK),
            "version": (0x010C00, 0x010A00, 0),
            "recording_id": (1, 0, -1),
            "signal": tuple(RecordingSignal),
            "error_message": ("", "no", "\n" * 300),
            "encoded_challenge": (b"", b"\0" * 100),
            "stripped_channel": ("aeron:ipc", "", "?" * 2000),
            "original_channel": ("aeron:ipc", "aeron:udp?endpoint=10.0.0.1:9"),
            "source_identity": ("aeron:ipc", "10.0.0.9:9"),
        }

    def begin_replay(self, position: int) -> None:
        """Publishes where a replay was asked for last, as if it began at `position`."""
        for message, values in reversed(self.asked):
            if message is codecs.REPLAY_REQUEST and len(self.replays) < REPLAYS_MAX:
                at = f"init-term-id=0|term-id={position // 65536}|term-offset={position % 65536}|term-length=64k"
                with contextlib.suppress(OrdoError):
                    channel = f"{values.replay_channel}|{at}"
                    self.replays.append(self.client.add_exclusive_publication(channel, values.replay_stream_id))
                return


class AskedReplay:
    """A replay that the client has asked for, and what came of it."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._position = -1

    def work(self, now_ns: int) -> None:
        self.replay.work(now_ns)
        if not self.replay.is_open:
            self._position = self.replay.position  # that was asked for
        self.replay.poll(self._take)

    def _take(self, message: RecordedMessage) -> None:
        before, self._position = self._position, message.position
        if message.position - before < len(message.payload) + 32:
            raise Finding(f"{len(message.payload)} bytes end at {message.position}, what was before them at {before}")


class AskingClient:
    """A client in order: it goes on working, whatever its archive says."""

    def __init__(self, world: ControlWorld) -> None:
        self.world = world
        self.node = world.node(CLIENT)
        self.errors: list[str] = []
        self.replies: list[tuple[Reply, control_requests.Call[Any]]] = []
        self.replays: list[AskedReplay] = []
        self.session = self.connect(LIAR)

    def connect(self, address: str) -> ArchiveSession:
        control, responses = f"aeron:udp?endpoint={address}:8010", f"aeron:udp?endpoint={CLIENT}:0"
        settings = ArchiveClientSettings(control_channel=control, response_channel=responses)
        return ArchiveSession(self.node.client, settings, self.world.clock.now())

    def work(self) -> None:
        now_ns = self.world.clock.now()
        self._guarded(lambda: self.session.work(now_ns))
        for one in self.replays:
            self._guarded(partial(one.work, now_ns))

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except DecodeError as error:
            raise Finding(f"what cannot be read is not dropped: {error}") from error
        except OrdoError as error:
            self.errors.append(str(error))

    def ask(self, call: control_requests.Call[Any]) -> None:
        def send() -> None:
            reply = self.session.request(call.message, item_count_max=call.item_count_max, **call.fields)
            self.replies.append((reply, call))

        self._guarded(send)

    def ask_replay(self, position: int | None, length_bytes: int | None) -> None:
        def send() -> None:
            now_ns = self.world.clock.now()
            replay = Replay(self.session, 1, now_ns=now_ns, position=position, length=length_bytes)
            self.replays.append(AskedReplay(replay))

        if len(self.replays) < REPLAYS_MAX:
            self._guarded(send)

    def check(self) -> None:
        """Every reply that is done says something."""
        for reply, call in self.replies:
            if call.item_count_max and len(reply.items) > call.item_count_max:
                raise Finding(f"{len(reply.items)} items, asked for {call.item_count_max}")
            if reply.is_done and reply.error is None:
                self._guarded(partial(call.convert, reply))


class AnswerWorld(ControlWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.liar = LyingArchive(self)
        self.asking = AskingClient(self)
        self.until(lambda: self.liar.is_heard, timeout_ns=3 * S)

    def cycle(self) -> None:
        super().cycle()
        self.liar.work()
        self.asking.work()


Act = Callable[[AnswerWorld, Fields], None]


def connect_in_order(world: AnswerWorld, fields: Fields) -> None:
    """The connect request is answered as it should be."""
    world.liar.answer(fields.near(world.liar.known()["correlation_id"][0]))


def ask(world: AnswerWorld, fields: Fields) -> None:
    world.asking.ask(fields.choose(CALLS)())


def ask_replay(world: AnswerWorld, fields: Fields) -> None:
    world.asking.ask_replay(*fields.choose(REPLAY_PARTS))


def answer(world: AnswerWorld, fields: Fields) -> None:
    message = fields.choose(ANSWERS)
    for _ in range(fields.choose((1, 1, 1, 4))):
        world.liar.say(fill(message, fields, world.liar.known()))


def say_a_part(world: AnswerWorld, fields: Fields) -> None:
    """Of an answer; strangers who know where the client listens may send it, too."""
    message, at = fields.choose(ANSWERS), fields.byte()
    filled = fill(message, fields, world.liar.known())
    world.liar.say(filled[: at % len(filled)])


def say_anything(world: AnswerWorld, fields: Fields) -> None:
    world.liar.say(fields.rest())


def begin_replay(world: AnswerWorld, fields: Fields) -> None:
    world.liar.begin_replay(fields.choose((0, 64, 65536, 0, 96)))


def send_replay(world: AnswerWorld, fields: Fields) -> None:
    if world.liar.replays:
        publication = fields.choose(world.liar.replays)
        for _ in range(fields.choose((1, 1, 10, 100))):
            publication.offer(bytes(fields.choose((64, 1, 1408, 5000, 0))))


def end_replay(world: AnswerWorld, fields: Fields) -> None:
    if world.liar.replays:
        publication = world.liar.replays.pop(fields.byte() % len(world.liar.replays))
        fields.choose((publication.close, publication.revoke))()


def give_replay_up(world: AnswerWorld, fields: Fields) -> None:
    if world.asking.replays:
        fields.choose(world.asking.replays).replay.close()


def let_time_pass(world: AnswerWorld, fields: Fields) -> None:
    world.run_coarsely(fields.choose(TIMES_NS))


ACTS: tuple[Act, ...] = (
    connect_in_order,
    ask,
    ask_replay,
    answer,
    say_a_part,
    say_anything,
    begin_replay,
    send_replay,
    end_replay,
    give_replay_up,
    let_time_pass,
)
LIKELY = (0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 4, 5, 6, 6, 7, 7, 8, 9, 10)


class AnswerDoor:
    """Steps are what an archive says to a client, what it sends as a replay, and what the client asks for meanwhile;
    kinds are those of ACTS. The client has errors of the tree and messages from where it asked for them; afterwards it
    leaves nothing behind, and another archive serves it."""

    name = "answers"

    def __init__(self) -> None:
        self._folders = Folders()

    def seeds(self) -> list[bytes]:
        random = Random(1)
        connected = [(0, b""), (10, b"\1")]
        listed = [(1, b""), *((3, bytes([index])) for index in range(len(ANSWERS)))]
        replayed = [(2, b""), (10, b"\1"), (6, b""), (10, b"\1"), (3, bytes([0, 0, 0, 0, 0, 0, 0, 1])), (7, b"\0\2")]
        return [
            pack([*connected, *listed, *replayed, (8, b"")]),
            pack([*connected, (1, b""), *((4, bytes([index, 20])) for index in range(len(ANSWERS)))]),
            *(pack([*connected, (1, bytes([call])), (3, b"\2"), (3, b""), (3, b"\1")]) for call in range(len(CALLS))),
            *(pack([*connected, (2, bytes([part])), *replayed[1:], (8, b"\0\1")]) for part in range(len(REPLAY_PARTS))),
            *(pack([*connected, *(self.draw(random) for _ in range(8))]) for _ in range(4)),
        ]

    def draw(self, random: Random) -> Step:
        rest = draw_fields(random, 24)
        return random.choice(LIKELY), rest

    def run(self, data: bytes) -> Hashable:
        world = AnswerWorld(self._folders.fresh())
        try:
            for kind, step in unpack(data, STEPS_MAX):
                ACTS[kind % len(ACTS)](world, Fields(step))
                world.run(1 * MS)
                world.asking.check()
            states = {f"{one.replay.state.name} {str(one.replay.error)[:24]}" for one in world.asking.replays}
            self._demand_well(world)
            return frozenset({error[:24] for error in world.asking.errors} | states)
        finally:
            world.close()

    def _demand_well(self, world: AnswerWorld) -> None:
        asking = world.asking
        for one in asking.replays:
            one.replay.close()
        asking.session.close()
        world.run(20 * MS)
        left = asking.node.driver.conductor.subscriptions.links
        if len(left) or any(not reply.is_done for reply, _ in asking.replies):
            raise Finding(f"{len(left)} subscriptions, and {asking.replies} are left of a session that is closed")
        world.server(HONEST)
        asking.session = asking.connect(HONEST)
        world.until(lambda: asking.session.is_connected)
        asking.ask(control_requests.list_recordings())
        world.until(lambda: asking.replies[-1][0].is_done)
        if asking.replies[-1][0].error is not None:
            raise Finding(f"another archive answers {asking.replies[-1][0].error}")
        asking.session.close()
        for node in world.nodes:
            check_errors(node)

    def close(self) -> None:
        self._folders.close()
