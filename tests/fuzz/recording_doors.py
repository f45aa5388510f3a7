"""The door of an archive that lives on: a client asks for one thing after another, of recordings some of which grow.
Every answer is one of the protocol's, and what is in the archive afterwards was recorded, at its position."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ordo.archive.client import control_requests
from ordo.archive.inspection.recording_inspection import dump, list_recordings, verify
from ordo.archive.protocol import codecs
from ordo.archive.protocol.codes import ErrorCode, RecordingSignal, ResponseCode
from ordo.runtime.errors import OrdoError
from ordo.runtime.sbe import Message, decode_one_of
from ordo.transport.streams.publication import ExclusivePublication
from tests.archive.control_world import SEGMENT_LENGTH, ControlWorld, Server
from tests.fuzz.cluster_doors import Folders
from tests.fuzz.driver_doors import Finding, check_errors
from tests.fuzz.engine import Fields, Step, pack, unpack
from tests.fuzz.filled import fill
from tests.transport.driver_world import MS, S

SERVER, STRANGER = "10.0.0.1", "10.0.0.9"
CONTROL = f"aeron:udp?endpoint={SERVER}:8010"
RESPONSES = f"aeron:udp?endpoint={STRANGER}:9"
REPLAYS = f"aeron:udp?endpoint={STRANGER}:6000"
RESPONSE_STREAM, REPLAY_STREAM, LIVE_STREAM = 21, 50, 140
RECORDED_STREAMS = (30, 31, 32)
"""Of two recordings that have ended, and of one that goes on."""
FIRST_POSITIONS = (0, 3 * 65536 + 4096, 0)
STEPS_MAX = 32
TIMES_NS = (1 * MS, 20 * MS, 500 * MS, 3 * S)
SESSION_REQUESTS = (codecs.AUTH_CONNECT_REQUEST, codecs.CLOSE_SESSION_REQUEST, codecs.CHALLENGE_RESPONSE)
REQUESTS: tuple[Message, ...] = tuple(
    message for message in codecs.MESSAGES.values() if "Request" in message.name and message not in SESSION_REQUESTS
)
HIGHEST = 2**63 - 1


def channel_of(stream_id: int) -> str:
    position = FIRST_POSITIONS[stream_id - RECORDED_STREAMS[0]]
    term_id = 3 + position // 65536
    return f"aeron:ipc?term-length=64k|init-term-id=3|term-id={term_id}|term-offset={position % 65536}"


def payload_at(position: int) -> bytes:
    """What begins at a position, in every stream here: so it can be told wherever it turns up."""
    return f"{position:020d}".encode() + bytes(position // 32 % 61 * 40)


def check_payload(payload: bytes, position: int, where: str) -> None:
    if payload != payload_at(position):
        raise Finding(f"{where}: at position={position} is {payload[:40]!r}, {len(payload)} bytes")


class LivingArchive:
    """An archive with recordings, a client of it that lives in order, and one that asks for whatever it likes."""

    def __init__(self, folder: Path) -> None:
        self.world = world = ControlWorld(folder)
        self.server: Server = world.server(SERVER)
        self.caller = world.remote_caller(self.server)
        client = self.caller.client
        self.control: ExclusivePublication = client.add_exclusive_publication(CONTROL, 10)
        self.responses = client.add_subscription(RESPONSES, RESPONSE_STREAM)
        self.replayed = client.add_subscription(REPLAYS, REPLAY_STREAM)
        self.limit = self.server.node.client.add_counter(1001, "limit")
        self.publications: dict[int, ExclusivePublication] = {}
        self.told: dict[str, list[int]] = {"relevant_id": [], "control_session_id": [], "recording_id": []}
        self.kinds: set[str] = set()
        self.correlation_id = 100
        world.until(lambda: self.control.is_connected)
        self.connect()

    @property
    def folder(self) -> Path:
        return self.world.folder / SERVER

    def connect(self) -> None:
        self.say(
            codecs.AUTH_CONNECT_REQUEST.encode(
                correlation_id=1, response_stream_id=RESPONSE_STREAM, version=0x010C00, response_channel=RESPONSES
            )
        )
        self.run(20 * MS)

    def say(self, message: bytes) -> None:
        with contextlib.suppress(OrdoError):
            self.control.offer(message or b"\0")

    def run(self, duration_ns: int) -> None:
        step_ns = max(self.world.step_ns, duration_ns // 50)
        until = self.world.clock.now() + duration_ns
        before, self.world.step_ns = self.world.step_ns, step_ns
        while self.world.clock.now() < until:
            self.world.cycle()
            self.responses.poll_messages(self._on_response, 50)
            self.replayed.poll_messages(self._on_replayed, 50)
        self.world.step_ns = before

    # --- what is answered -----------------------------------------------------------------------------------------

    def _on_response(self, payload: bytes, _: Any) -> None:
        found = decode_one_of(codecs.SCHEMAS, payload)
        if found is None:
            raise Finding(f"an answer that is none: {payload[:40]!r}")
        message, values = found
        code = ""
        if message is codecs.CONTROL_RESPONSE:
            code = self._check_response(values)
        elif message is codecs.RECORDING_SIGNAL_EVENT:
            code = RecordingSignal(values.signal).name
        elif message is codecs.RECORDING_DESCRIPTOR and -1 < values.stop_position < values.start_position:
            raise Finding(f"recording {values.recording_id} begins at {values.start_position}: {values}")
        self.kinds.add(f"{message.name} {code}")
        for name, known in self.told.items():
            value = getattr(values, name, -1)
            if value not in (-1, *known[:4]):
                self.told[name] = [value, *known[:3]]

    def _check_response(self, values: Any) -> str:
        response = ResponseCode(values.code)
        if response is ResponseCode.ERROR and values.relevant_id == values.control_session_id:
            return "another major version"  # this one answer names the session in place of a code
        if response is ResponseCode.ERROR:
            return f"{ErrorCode(values.relevant_id).name} {values.error_message[:12]}"
        return response.name

    def _on_replayed(self, payload: bytes, header: Any) -> None:
        self.kinds.add("replayed")
        check_payload(bytes(payload), header.position - framed_length(len(payload)), "a replay")

    # --- recordings -----------------------------------------------------------------------------------------------

    def record(self, stream_id: int) -> None:
        """Begins, without anybody having asked for it."""
        self.server.archive.record_subscription("aeron:ipc", stream_id)
        self.publish(stream_id)

    def publish(self, stream_id: int, channel: str | None = None) -> None:
        client = self.server.node.client
        with contextlib.suppress(OrdoError):
            self.publications[stream_id] = client.add_exclusive_publication(channel or channel_of(stream_id), stream_id)
        self.run(MS)

    def offer(self, stream_id: int, count: int) -> None:
        """Until one is refused: at the end of a term, a padding is in its place."""
        publication = self.publications.get(stream_id)
        if publication is None:
            return
        for _ in range(count):
            if publication.offer(payload_at(publication.position)) <= 0:
                break
        self.limit.set(max(publication.position - 4096, 0))

    def known(self) -> dict[str, Sequence[Any]]:
        """Values by the names of fields."""
        told, ends = self.told, [one.position for one in self.publications.values() if not one.is_closed]
        stops = [d.stop_position for d in self.server.archive.recordings() if d.stop_position >= 0]
        positions = (*ends, *stops, *range(0, 4 * SEGMENT_LENGTH, SEGMENT_LENGTH), FIRST_POSITIONS[1], 32, -1)
        ids = (*told["recording_id"], 0, 1, 2, 3, -1)
        self.correlation_id += 1
        channels = (
            *map(channel_of, RECORDED_STREAMS), "aeron:ipc", REPLAYS, f"{CONTROL[:-4]}9300", "aeron:udp", "no channel"
        )  # fmt: skip
        found = dict.fromkeys(("start_position", "new_start_position", "stop_position", "position"), positions)
        found |= dict.fromkeys(("recording_id", "source_recording_id", "target_recording_id"), ids)
        found |= {"from_recording_id": ids[::-1], "min_recording_id": ids[::-1]}
        return {
            **found,
            "control_session_id": (*told["control_session_id"], self.caller.session.control_session_id, 0, -1),
            "correlation_id": (self.correlation_id,),
            "length": (HIGHEST, -1, 0, 32, 4096, SEGMENT_LENGTH, -2),
            "limit_counter_id": (self.limit.counter_id, -1, 0, 9999),
            "record_count": (10, 1, 0, -1, 2**31 - 1),
            "file_io_length_max": (-1, 0, 4096, 1 << 20),
            "replay_stream_id": (REPLAY_STREAM, LIVE_STREAM, 10, 20),
            "replay_session_id": (*told["relevant_id"], 0),
            "replication_id": (*told["relevant_id"], 0),
            "subscription_id": (*told["relevant_id"], 0),
            "stream_id": RECORDED_STREAMS,
            "source_location": (0, 1),
            "source_control_stream_id": (10,),
            **dict.fromkeys(("replay_token", "channel_tag_id", "subscription_tag_id"), (-1, 0)),
            "replication_session_id": (-1, 0),
            "version": (0x010C00, 0),
            "channel": channels,
            "replay_channel": (REPLAYS, f"{REPLAYS}|live=true", *channels),
            "source_control_channel": (CONTROL, "aeron:ipc", "aeron:udp?endpoint=10.0.0.7:1"),
            "live_destination": ("", f"{CONTROL[:-4]}9200"),
            "replication_channel": (f"{CONTROL[:-4]}0", "", "aeron:ipc"),
            "response_channel": (RESPONSES,),
            "response_stream_id": (RESPONSE_STREAM, 10),
        }

    # --- the end --------------------------------------------------------------------------------------------------

    def demand_served(self) -> None:
        """The other client is still served, and the archive met nothing that it does not know."""
        self.caller.call(control_requests.list_recordings())
        for error in self.server.errors:
            if not isinstance(error, OrdoError):
                raise Finding(f"unforeseen {error!r}") from error
        for node in self.world.nodes:
            check_errors(node)

    def demand_consistent(self) -> None:
        """Of the folder, once nobody works in it."""
        for found in verify(str(self.folder)):
            if not found.is_good:
                raise Finding(str(found))
        for descriptor in list_recordings(str(self.folder)):
            for message in dump(str(self.folder), descriptor.recording_id):
                check_payload(bytes(message.payload), message.start_position, f"recording {descriptor.recording_id}")


def framed_length(length: int) -> int:
    """What a payload takes in a stream whose MTU is 1408, header and alignment included; longer ones are fragmented."""
    whole, rest = divmod(length, 1376)
    return whole * 1408 + (-(-(rest + 32) // 32) * 32 if rest or not whole else 0)


class RecordingDoor:
    """Steps are requests of a client (kind 0: in its session, 1: in any), any bytes (2), messages of the stream that is
    recorded (3), streams that begin and end (4), or time passes (5)."""

    name = "recordings"

    def __init__(self) -> None:
        self._folders = Folders()
        self._made = self._folders.root / "made"
        self._made.mkdir()
        archive = LivingArchive(self._made)
        for stream_id in RECORDED_STREAMS[:2]:
            archive.record(stream_id)
            for _ in range(50):
                archive.offer(stream_id, 3)
                archive.run(MS)
            archive.publications.pop(stream_id).close()
            archive.run(20 * MS)
        archive.world.close()

    def seeds(self) -> list[bytes]:
        random = Random(1)
        each = [(0, bytes([index])) for index in range(len(REQUESTS))]
        return [*(pack([one, (3, b""), (5, b"\1")]) for one in each),
                *(pack([self.draw(random) for _ in range(10)]) for _ in range(6))]  # fmt: skip

    def draw(self, random: Random) -> Step:
        kind = random.choice((0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5))
        rest = bytes(random.choice((0, 0, random.randrange(128), random.randrange(256))) for _ in range(24))
        return kind, bytes([random.randrange(256)]) + rest

    def run(self, data: bytes) -> Hashable:
        folder = self._folders.fresh()
        shutil.copytree(self._made / SERVER, folder / SERVER)
        archive = LivingArchive(folder)
        try:
            archive.record(RECORDED_STREAMS[2])
            archive.offer(RECORDED_STREAMS[2], 20)
            for kind, step in unpack(data, STEPS_MAX):
                self._take(archive, kind % 6, Fields(step))
            archive.demand_served()
        finally:
            archive.world.close()
        archive.demand_consistent()
        return frozenset(archive.kinds)

    def _take(self, archive: LivingArchive, kind: int, fields: Fields) -> None:
        if kind in (0, 1):
            known = archive.known()
            if kind == 0:
                known["control_session_id"] = known["control_session_id"][:1]
            archive.say(fill(fields.choose(REQUESTS if kind == 0 else tuple(codecs.MESSAGES.values())), fields, known))
        elif kind == 2:
            archive.say(fields.rest())
        elif kind == 3:
            archive.offer(RECORDED_STREAMS[2], fields.choose((5, 1, 40)))
        elif kind == 4:
            self._act(archive, fields)
        archive.run(fields.choose(TIMES_NS) if kind == 5 else 2 * MS)

    def _act(self, archive: LivingArchive, fields: Fields) -> None:
        stream_id = fields.choose(RECORDED_STREAMS)
        publication = archive.publications.get(stream_id)
        actions: tuple[Callable[[], object], ...] = (
            partial(archive.publish, stream_id),
            partial(archive.offer, stream_id, 20),
            archive.connect,
            partial(archive.publish, stream_id, f"aeron:ipc?term-length=64k|session-id={fields.byte()}"),
            lambda: publication.close() if publication is not None else None,
        )
        fields.choose(actions)()

    def close(self) -> None:
        self._folders.close()
