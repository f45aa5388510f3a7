"""The door of the live stream that a node's readers share: one of them joins and leaves, lies and asks without end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from pathlib import Path
from random import Random
from typing import Any

from ordo.archive.client import control_requests
from ordo.archive.client.session import Reply
from ordo.archive.control.live_replays import LIVE_STREAM_ID
from ordo.runtime.errors import OrdoError
from tests.archive.control_world import Caller, Server
from tests.fuzz.cluster_doors import Folders
from tests.fuzz.driver_doors import Finding, check_errors, signature
from tests.fuzz.engine import Fields, Step, draw_fields, pack, unpack
from tests.sequencer.receiver_frames import DATA, SETUP, ReceiverFrames, asking_for_setup
from tests.sequencer.test_live_stream import Reader, SharedWorld, close
from tests.sequencer.test_log_follower import LogNode
from tests.transport.driver_world import MS, S

SERVER, HOST, VICTIM = "10.0.0.1", "10.0.0.8", "10.0.0.7"
PORTS = (5000, 5001)
TERM_LENGTH = 64 << 10
WINDOWS = (TERM_LENGTH // 2, 0, 64, TERM_LENGTH, -1, 2**31 - 1)
FLAGS = (0, 0, 0x80, 0x40)
STEPS_MAX = 40
TIMES_NS = (1 * MS, 20 * MS, 200 * MS, 1 * S)
READERS_MAX = 4


class LiveWorld(SharedWorld):
    """One node of a log, and readers that have caught up."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.nodes_of_log = [LogNode(self, SERVER, False)]
        self.readers = [self.new_reader()]
        self.log(20)
        self.until_live()

    def new_reader(self) -> Reader:
        return Reader(self, f"10.0.1.{len(self.readers) + 1}")

    @property
    def of_log(self) -> Server:
        return self.nodes_of_log[0].server

    def log(self, count: int) -> None:
        self.commit(self.append(range(self.sent, self.sent + count), nodes=[0]), nodes=[0])
        self.sent += count


class HostileReader:
    """A session with the archive, and two ports at which nobody really listens."""

    def __init__(self, world: LiveWorld) -> None:
        self.world = world
        self.caller: Caller = world.remote_caller(world.of_log, HOST)
        self.replies: list[Reply] = []
        self.frames: ReceiverFrames | None = None
        self.source = ("", 0)
        self._heard = 0
        world.node(VICTIM)

    def ask(self, call: control_requests.Call[Any]) -> None:
        with contextlib.suppress(OrdoError):
            request = self.caller.session.request
            self.replies.append(request(call.message, item_count_max=call.item_count_max, **call.fields))

    def replay_ids(self) -> tuple[int, ...]:
        told = [reply.relevant_id for reply in self.replies if reply.is_done and reply.error is None]
        return (*told[::-1], *(one.replay_id for one in self.world.of_log.archive.replays()), 0)

    def hear(self) -> None:
        """Learns how the stream is named, as who is sent it may."""
        for _, source, to, data in self.world.packets[self._heard :]:
            if to[0] == HOST and to[1] in PORTS and len(data) > 30:
                self.source = source
                if data[6] == SETUP:
                    self.frames = ReceiverFrames(data)
                elif data[6] == DATA and self.frames is None:
                    self.say(asking_for_setup(data), PORTS[0])
        self._heard = len(self.world.packets)

    def say(self, datagram: bytes, port: int) -> None:
        if self.source[1]:
            self.world.network.hosts[SERVER].accept((HOST, port), self.source, datagram)

    def position(self, fields: Fields) -> int:
        """One at which something may happen."""
        ends = [one.position for one in self.world.of_log.archive.replays()]
        ends += [self.world.nodes_of_log[0].publication.position, 0, 2**62, -TERM_LENGTH]
        return fields.near(fields.choose(ends), 32)


Act = Callable[[LiveWorld, HostileReader, Fields], None]


def join(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    host = fields.choose((HOST, HOST, HOST, VICTIM, "reader.example", "10.0.1.1"))
    more = fields.choose(("live=true", "live=true", "live=false", "control=10.0.0.7:9|live=true", "ttl=9|live=true"))
    channel = f"aeron:udp?endpoint={host}:{fields.choose(PORTS)}|{more}"
    stream_id = fields.choose((LIVE_STREAM_ID, LIVE_STREAM_ID, 100, 20))
    hostile.ask(control_requests.start_replay(fields.choose((0, 0, 0, 1, -1)), channel, stream_id))


def leave(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    hostile.ask(control_requests.stop_replay(min(fields.near(fields.choose(hostile.replay_ids())), 2**63 - 1)))


def end_session(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    hostile.caller.session.close()
    world.callers.remove(hostile.caller)
    world.run(MS)
    hostile.caller = world.remote_caller(world.of_log, HOST)


def status(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    if hostile.frames is not None:
        for _ in range(fields.choose((1, 1, 4))):
            position, window = hostile.position(fields), fields.choose(WINDOWS)
            frame = hostile.frames.status(position, window, fields.choose(FLAGS), fields.near(1))
            hostile.say(frame, fields.choose(PORTS))


def ask_again(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    if hostile.frames is not None:
        for _ in range(fields.choose((1, 4, 20))):
            length = fields.choose((64, 1408, TERM_LENGTH // 2, TERM_LENGTH, 0, -64))
            hostile.say(hostile.frames.nak(hostile.position(fields), length), fields.choose(PORTS))


def refuse(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    if hostile.frames is not None:
        hostile.say(hostile.frames.refusal(fields.near(1), b"no" * fields.choose((1, 500, 0))), fields.choose(PORTS))


def say_anything(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    port = fields.choose(PORTS)
    hostile.say(fields.rest() or b"\0", port)


def log_more(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    world.log(fields.choose((1, 5, 40)))


def pause_or_go_on(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    reader = fields.choose(world.readers)
    reader.is_paused = not reader.is_paused


def join_in_order(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    if len(world.readers) < READERS_MAX:
        world.readers.append(world.new_reader())


def let_time_pass(world: LiveWorld, hostile: HostileReader, fields: Fields) -> None:
    world.run_coarsely(fields.choose(TIMES_NS))


ACTS: tuple[Act, ...] = (
    join,
    leave,
    end_session,
    status,
    ask_again,
    refuse,
    say_anything,
    log_more,
    pause_or_go_on,
    join_in_order,
    let_time_pass,
)
LIKELY = (0, 0, 0, 1, 1, 2, 3, 3, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10)


class LiveDoor:
    """Steps are what a reader that lies does to a node's live stream, and what happens meanwhile; kinds are those of
    ACTS. Readers in order get all of the log, nobody is sent what he did not ask for, nothing is left behind."""

    name = "live"

    def __init__(self) -> None:
        self._folders = Folders()

    def seeds(self) -> list[bytes]:
        random = Random(1)
        joined = [(0, b""), (10, b"\1")]
        each = [(kind, b"") for kind in range(len(ACTS))]
        alone = [(kind, b"\1") for kind in range(1, 10, 2)]
        return [pack([*joined, *each]), *(pack([*joined, one, (7, b"\1"), (10, b"\2")]) for one in alone),
                *(pack([*joined, *(self.draw(random) for _ in range(8))]) for _ in range(4))]  # fmt: skip

    def draw(self, random: Random) -> Step:
        rest = draw_fields(random, 12)
        return random.choice(LIKELY), rest

    def run(self, data: bytes) -> Hashable:
        world = LiveWorld(self._folders.fresh())
        try:
            hostile = HostileReader(world)
            for kind, step in unpack(data, STEPS_MAX):
                ACTS[kind % len(ACTS)](world, hostile, Fields(step))
                world.run(2 * MS)
                hostile.hear()
                self._check(world)
            self._demand_well(world, hostile)
            answers = {str(reply.error)[:30] for reply in hostile.replies if reply.is_done}
            return frozenset(enumerate(signature(world))) | answers
        finally:
            close(world)

    def _check(self, world: LiveWorld) -> None:
        for reader in world.readers:
            if reader.numbers != list(range(len(reader.seen))):
                raise Finding(f"a reader has {reader.numbers[-20:]}")
        live = world.live_of(0)
        if live.client_count > len(world.of_log.conductor.sessions):
            raise Finding(f"client_count={live.client_count} of {len(world.of_log.conductor.sessions)} sessions")
        if any(to[0] == VICTIM and data[6] == DATA and len(data) > 32 for _, _, to, data in world.packets):
            raise Finding("somebody is sent the log who has not asked for it")

    def _demand_well(self, world: LiveWorld, hostile: HostileReader) -> None:
        for reader in world.readers:
            reader.is_paused = False
        hostile.caller.session.close()
        world.log(10)
        world.until_all_have()
        world.run(2 * S, step_ns=20 * MS)
        endpoints = world.of_log.node.driver.conductor.publications.endpoints.all
        listed = sum(one.destination_count for one in endpoints if one.is_manual)
        if listed > len(world.readers):
            raise Finding(f"{listed} destinations of {len(world.readers)} readers are left")
        for error in world.of_log.errors:
            if not isinstance(error, OrdoError):
                raise Finding(f"unforeseen {error!r}") from error
        for node in world.nodes:
            check_errors(node)

    def close(self) -> None:
        self._folders.close()
