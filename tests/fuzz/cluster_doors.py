"""Doors of a cluster: what clients have written into its log, the control protocol of its archive, and what it reads
back from snapshots and metadata stores."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Hashable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from ordo.archive.client import control_requests
from ordo.archive.protocol import codecs as archive_codecs
from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import LmdbStore
from ordo.cluster.container.tables.consumer_table import ConsumerTable
from ordo.cluster.container.tables.difference_table import DifferenceTable
from ordo.cluster.container.tables.instance_table import InstanceTable
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.recovery import check_parts
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.sessions.consumer_codec import (
    CommandKind,
    ConsumerCommand,
    ConsumerMode,
    Row,
    RowKind,
    encode_command,
)
from ordo.cluster.wire.sessions.difference_codec import DifferenceKind, DifferenceReport, encode_difference
from ordo.cluster.wire.sessions.instance_codec import InstanceReport, encode_report
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.runtime.errors import OrdoError
from ordo.runtime.sbe import Message
from ordo.service_api.requests import RequestTable
from ordo.service_api.service import ClusteredService, TimeUnit
from tests.archive.control_world import ControlWorld
from tests.archive.test_lmdb_damage import write_catalog, write_state
from tests.cluster.container.service_node import ServiceNode
from tests.fuzz.driver_doors import Finding, check_errors
from tests.fuzz.engine import Step, mutate, pack, unpack

SESSION = 1
STEPS_MAX = 32
RESPONSES = "aeron:udp?endpoint=10.0.0.9:9"
FOR_THE_CONTAINER: dict[int, Message] = {
    message.template_id: message
    for message in (
        ordo_codecs.REQUEST,
        ordo_codecs.OPEN_IDENTITY,
        ordo_codecs.MESSAGE_MARK,
        ordo_codecs.CONSUMER_COMMAND,
        ordo_codecs.APP_REPORT,
        ordo_codecs.APP_DIFFERENCE,
    )
}
"""What the log carries as a client sent it (ordo.cluster.wire.layout)."""
INSTANCE = InstanceReport("group", "one", SESSION, 0, 64, 1, 1, 1, 1)
DIFFERENCE = DifferenceReport("group", "one", SESSION, 0, 0, 64, 0, 1, 1, DifferenceKind.PAYLOAD, 2, 3, b"ab", b"abc")
STAMP = struct.Struct("<qqq")
HEADER = struct.Struct("<HHHH")
ORDO_SCHEMA_ID = HEADER.unpack_from(ordo_codecs.LEVEL_REPORT.encode(member_id=0, level=0))[2]


class Echo(ClusteredService):
    """Answers with what it got."""

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes:
        return payload


class Folders:
    """A folder that goes with its door."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="ordo-fuzz-"))

    def fresh(self) -> Path:
        """An empty folder for one run."""
        folder = self.root / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


class RecordDoor:
    """Steps are messages of clients that the leader has sequenced: those of Ordo, as they are but for the leader's
    stamp (kind 0: of an open session, 1: of whichever it names), and the payloads of others (kind 2).

    Every member executes them, so none may end the container; and what they leave behind can be read back.
    """

    name = "records"

    def __init__(self) -> None:
        self._folders = Folders()
        self._records = list(self._valid())

    def draw(self, random: Random) -> Step:
        record = random.choice(self._records)
        return random.choice((0, 0, 0, 1)), random.choice((record, mutate(random, record, [record])))

    def seeds(self) -> list[bytes]:
        steps = [(0, record) for record in self._records]
        return [pack(steps), *(pack([step]) for step in steps), pack([steps[0], steps[1], steps[1], (2, b"plain")])]

    def _valid(self) -> Iterable[bytes]:
        ids = {"leadership_term_id": 0, "cluster_session_id": SESSION, "timestamp": 0}
        yield ordo_codecs.OPEN_IDENTITY.encode(incarnation=7, known_position=0, identity_high=1, identity_low=2, **ids)
        opened = 352  # where the first record of a run ends
        yield ordo_codecs.REQUEST.encode(open_position=opened, number=1, confirmed=0, **ids) + b"payload"
        yield ordo_codecs.OUTPUT.encode(open_position=opened, number=2, target_session_id=SESSION, **ids) + b"output"
        by_id = ordo_codecs.split_request_digest(bytes(range(16)))
        yield ordo_codecs.OUTPUT_BY_ID.encode(open_position=opened, number=3, **by_id, **ids) + b"output"
        for number in (1, 2):
            yield ordo_codecs.REQUEST_BY_ID.encode(open_position=opened, number=number, **by_id, **ids) + b"payload"
        yield ordo_codecs.MESSAGE_MARK.encode(number=1, previous_session_id=-1, **ids)
        shared = {"mode": ConsumerMode.SHARED, "ack_timeout": 10, "in_flight_max": 4, "tries_max": 2}
        for number, fields in enumerate(
            (
                {"kind": CommandKind.JOIN, "position": 0, **shared},
                {
                    "kind": CommandKind.WORK,
                    "epoch": opened,
                    "from_position": 0,
                    "position": 96,
                    "rows": (Row(0, 96, 5),),
                },
                {"kind": CommandKind.WORK, "rows": (Row(RowKind.GIVEN_BACK, 96, 0, 7), Row(RowKind.ACKNOWLEDGED, 96))},
                {"kind": CommandKind.SEEK, "position": 0},
                {"kind": CommandKind.DESCRIBE},
                {"kind": CommandKind.REMOVE},
            ),
            1,
        ):
            yield encode_command(ConsumerCommand(name="risk", member_key=9, number=number, **fields), 0, SESSION)  # type: ignore[arg-type]
        for kind in (CommandKind.LIST, CommandKind.INSTANCES, CommandKind.DIFFERENCES):
            yield encode_command(ConsumerCommand(kind, number=1, position=-1), 0, SESSION)
        yield encode_report(INSTANCE, 0)
        yield encode_report(INSTANCE._replace(outputs_refused=3), 0)
        yield encode_difference(DIFFERENCE, 0)

    def run(self, data: bytes) -> Hashable:
        node = ServiceNode(self._folders.fresh())
        node.set_recovery()
        node.begin_term(0, leads=True)
        node.open_session(SESSION)
        container = node.container(Echo())
        try:
            node.commit()
            node.run(container)
            for kind, step in unpack(data, most=STEPS_MAX):
                node.time += 5
                record = self._record(node, kind, step)
                if record is not None:
                    node.append(record)
                    node.commit()
                    node.run(container)
            node.message(SESSION, b"and on")
            node.commit()
            node.run(container)
            told = {message[2:4] for stream in node.client.egress.values() for message in node.client.received(stream)}
            return (*self._check_state(container), *sorted(told))
        finally:
            node.close()

    def _record(self, node: ServiceNode, kind: int, step: bytes) -> bytes | None:
        """What a leader would append of it; None for what it would not."""
        if kind % 3 == 2:
            ids = {"leadership_term_id": 0, "cluster_session_id": SESSION, "timestamp": node.time}
            return codecs.SESSION_MESSAGE_HEADER.encode(**ids) + step
        if len(step) < HEADER.size + STAMP.size:
            return None
        block_length, template_id, schema_id, _ = HEADER.unpack_from(step)
        message = FOR_THE_CONTAINER.get(template_id)
        is_whole = message is not None and message.block_length <= block_length <= len(step) - HEADER.size
        if schema_id != ORDO_SCHEMA_ID or not is_whole:
            return None
        session_id = SESSION if kind % 3 == 0 else STAMP.unpack_from(step, HEADER.size)[1]
        return step[: HEADER.size] + STAMP.pack(0, session_id, node.time) + step[HEADER.size + STAMP.size :]

    def _check_state(self, container: Any) -> tuple[int, ...]:
        consumers = container.consumers
        taken = [*consumers.table.snapshot()], [*consumers.instances.snapshot()], [*consumers.differences.snapshot()]
        again = ConsumerTable(), InstanceTable(), DifferenceTable()
        for table, messages in zip(again, taken, strict=True):
            table.restore(messages)  # type: ignore[attr-defined]
            if [*table.snapshot()] != messages:  # type: ignore[attr-defined]
                raise Finding(f"{type(table).__name__} is another one once it was read back")
        requests = RequestTable()
        requests.restore(container.requests.snapshot())
        if requests.snapshot() != container.requests.snapshot():
            raise Finding("the table of requests is another one once it was read back")
        requests.ids.restore(container.requests.ids.snapshot(), True)
        if requests.ids.snapshot() != container.requests.ids.snapshot():
            raise Finding("the ids of requests are others once they were read back")
        shape = [len(messages) for messages in taken]
        return (*shape, len(requests), container.messages_executed, container.messages_rejected)

    def close(self) -> None:
        self._folders.close()


class SnapshotDoor:
    """Steps change a message of a whole snapshot, which of its two parts says the kind: from an offset on, perhaps cut
    there. Whatever is read then is a snapshot, or one clear error."""

    name = "snapshots"

    def __init__(self) -> None:
        point = module_snapshot.SnapshotPoint(640, 2, 1, codecs.ClusterTimeUnit.MILLIS)
        self._parts = self._service(), list(module_snapshot.encode(module_snapshot.ModuleSnapshot(point)))

    def _service(self) -> list[bytes]:
        requests = RequestTable()
        _, identity = requests.open(bytes(16), b"principal", 7, 0, 96, 5)
        assert identity is not None and requests.judge(96, b"principal", 1, 0, 6) is identity
        requests.note(identity, 192, 0, b"answer")
        assert requests.judge(96, b"principal", 2, 0, 7, bytes(range(16)), b"payload") is identity
        requests.note(identity, 288, 0, b"answer to an id")
        consumers = ConsumerTable()
        shared = {"mode": ConsumerMode.SHARED, "ack_timeout": 10, "in_flight_max": 4, "tries_max": 2}
        join = ConsumerCommand(CommandKind.JOIN, "risk", 9, 1, position=0, **shared)  # type: ignore[arg-type]
        consumers.execute(join, SESSION, 96, 5)
        instances, differences = InstanceTable(), DifferenceTable()
        instances.take(INSTANCE)
        differences.take(DIFFERENCE)
        return list(
            container_snapshot.encode(
                container_snapshot.ServiceSnapshot(
                    640, 2, TimeUnit.MILLIS, 1, (), ((5, 1000),), tuple(requests.snapshot()),
                    consumers=tuple(consumers.snapshot()), instances=tuple(instances.snapshot()),
                    differences=tuple(differences.snapshot()),
                    request_ids=tuple(requests.ids.snapshot()), takes_ids=True,
                )
            )
        )  # fmt: skip

    def seeds(self) -> list[bytes]:
        counts = [len(part) for part in self._parts]
        return [pack([(part, bytes([0, index, at, 0, 0xFF]))]) for part in (0, 1) for index in range(counts[part])
                for at in (0, 2, 8, 16, 24)]  # fmt: skip

    def run(self, data: bytes) -> Hashable:
        parts = [list(part) for part in self._parts]
        for kind, step in unpack(data, most=STEPS_MAX):
            part = parts[kind % 2]
            if len(step) > 3:
                at = int.from_bytes(step[:2], "big") % len(part)
                part[at] = self._changed(part[at], step[2:])
        try:
            service, module = container_snapshot.decode(iter(parts[0])), module_snapshot.decode(parts[1])
            check_parts(module, [service])
            RequestTable().restore(service.requests)
            RequestTable().ids.restore(service.request_ids, service.takes_ids)
            ConsumerTable().restore(service.consumers)
            InstanceTable().restore(service.instances)
            DifferenceTable().restore(service.differences)
        except OrdoError as error:
            return (type(error).__name__, str(error)[:14])
        return (len(service.requests), len(service.consumers), len(module.sessions))

    @staticmethod
    def _changed(message: bytes, step: bytes) -> bytes:
        at, mask = step[0] % (len(message) + 1), step[2:]
        if step[1] & 1:
            return message[:at] + mask
        changed = bytes(a ^ b for a, b in zip(message[at:], mask, strict=False))
        return message[:at] + changed + message[at + len(changed) :]


class StoreDoor:
    """Steps put a value into a metadata store, behind the seals that find what a disk has changed: of a member's state
    (kind 0) or of a catalog (kind 1), for the key with the number in the first byte. It is read, or there is one clear
    error."""

    name = "stores"

    def __init__(self) -> None:
        self._folders = Folders()
        self._made = {"state.mdb": write_state, "catalog.mdb": write_catalog}
        for name, write in self._made.items():
            write(self._folders.root / name)

    def seeds(self) -> list[bytes]:
        values = (b"", bytes(1), bytes(8), bytes(64), b"\xff" * 8, b"\xff" * 200)
        return [pack([(kind, bytes([key]) + value)]) for kind in (0, 1) for key in range(12) for value in values]

    def run(self, data: bytes) -> Hashable:
        folder = self._folders.fresh()
        steps = unpack(data, most=STEPS_MAX)
        return tuple(self._read(folder, name, [step for of, step in steps if of % 2 == kind])
                     for kind, name in enumerate(self._made))  # fmt: skip

    def _read(self, folder: Path, name: str, steps: list[bytes]) -> Hashable:
        if not steps:
            return None
        shutil.copy(self._folders.root / name, folder / name)
        store = LmdbStore(str(folder / name))
        try:
            keys = [key for key, _ in store.items()]
            with store.transaction() as txn:
                for step in filter(None, steps):
                    txn.put(keys[step[0] % len(keys)], step[1:])
            if name == "catalog.mdb":
                return len(list(Catalog(store)))
            state = StateStore(store)
            return (len(state.load().terms), len(state.list_evidence()), len(state.evidence()))
        except OrdoError as error:
            return (type(error).__name__, str(error)[:14])
        finally:
            store.close()

    def close(self) -> None:
        self._folders.close()


class ArchiveDoor:
    """Steps are requests to an archive, of a client that has a session: kind 0 names that session, others do as they
    like. The archive serves on."""

    name = "archive"

    def __init__(self) -> None:
        self._folders = Folders()

    def seeds(self) -> list[bytes]:
        steps = [(0, message.encode()) for message in archive_codecs.MESSAGES.values() if "Request" in message.name]
        return [*(pack([step]) for step in steps), pack([(1, steps[0][1]), *steps[:8]])]

    def run(self, data: bytes) -> Hashable:
        world = ControlWorld(self._folders.fresh())
        try:
            server = world.server()
            caller = world.remote_caller(server)
            stream = caller.client.add_exclusive_publication(f"aeron:udp?endpoint={server.node.address}:8010", 10)
            world.until(lambda: stream.is_connected)
            connect = archive_codecs.AUTH_CONNECT_REQUEST.encode(
                correlation_id=1, response_stream_id=21, version=0x010C00, response_channel=RESPONSES
            )
            caller.client.add_subscription(RESPONSES, 21)
            world.send(stream, [connect])
            world.until(lambda: len(server.conductor.sessions) == 2)
            session_id = max(server.conductor.sessions)
            for kind, step in unpack(data, most=STEPS_MAX):
                world.send(stream, [self._named(step, session_id) if kind == 0 else step or b"\0"])
                for _ in range(5):
                    world.cycle()
            found = tuple(sorted({f"{type(error).__name__}{str(error)[:25]}" for error in server.errors}))
            unforeseen = [error for error in server.errors if not isinstance(error, OrdoError)]
            if unforeseen:
                raise Finding(f"unforeseen {unforeseen[0]!r}") from unforeseen[0]
            caller.call(control_requests.list_recordings())
            for node in world.nodes:
                check_errors(node)
            return found
        finally:
            world.close()

    @staticmethod
    def _named(step: bytes, session_id: int) -> bytes:
        return step[: HEADER.size] + session_id.to_bytes(8, "little") + step[HEADER.size + 8 :]

    def close(self) -> None:
        self._folders.close()
