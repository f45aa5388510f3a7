"""A node as its service container sees it: a recorded log, counters and control streams, on real log buffers.

What is missing is the driver: `StreamClient` hands out log buffers of its own and cleans them by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ordo.archive.archive import Archive
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.container.service_container import ContainerIdentity, ContainerLimits, ServiceContainer
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.codecs import ClusterTimeUnit
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.runtime.errors import RegistrationError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.counters import Counter, CountersManager
from ordo.runtime.native.memory import HeapMemoryProvider, allocate
from ordo.transport.streams.subscription import Subscription
from tests.archive.streams import BACK_PRESSURED, Sink, Stream

CLIENT_ID = 4711


class StreamClient(Sink):
    """A transport client whose publications are read by the test. Asynchronous ones need `answer_after` more asks."""

    client_id = CLIENT_ID

    def __init__(self) -> None:
        super().__init__()
        self.counters = CountersManager(allocate(128 * 512), allocate(128 * 128), VirtualClock())
        self.by_stream: dict[int, Stream] = {}
        self.egress: dict[tuple[str, int], Stream] = {}
        self.answer_after = 0
        self.refused: set[str] = set()
        self.wakes = 0
        self._asks: dict[int, tuple[int, tuple[str, int]]] = {}
        self._next_id = 1000
        self._closed: list[int] = []

    def add_exclusive_publication(self, channel: str, stream_id: int) -> Any:
        self._next_id += 1
        self.by_stream[stream_id] = Stream(
            stream_id=stream_id, term_length=1 << 20 if stream_id == 106 else 128 * 1024, session_id=self._next_id
        )
        return self.by_stream[stream_id].publication

    def add_subscription(self, channel: str, stream_id: int) -> Subscription:
        subscription = Subscription(channel, stream_id, 1)
        self.by_stream[stream_id] = Stream(stream_id=stream_id, term_length=128 * 1024)
        subscription.add_image(self.by_stream[stream_id].image)
        return subscription

    def async_add_publication(self, channel: str, stream_id: int) -> int:
        self._next_id += 1
        self._asks[self._next_id] = self.answer_after, (channel, stream_id)
        return self._next_id

    def get(self, registration_id: int) -> Any:
        asks, key = self._asks[registration_id]
        if asks > 0:
            self._asks[registration_id] = asks - 1, key
            return None
        del self._asks[registration_id]
        if key[0] in self.refused:
            raise RegistrationError(f"refused: {key[0]}", code=1)
        self.egress[key] = Stream(stream_id=key[1], term_length=128 * 1024)
        return self.egress[key].publication

    def do_work(self, now_ns: int) -> int:
        for stream in [*self.by_stream.values(), *self.egress.values()]:
            stream.drive()
        return 0

    def idle(self) -> None:
        self.do_work(0)

    def wake_driver(self) -> None:
        self.wakes += 1

    def received(self, stream: Stream) -> list[bytes]:
        """What was published on a stream and not taken yet."""
        messages: list[bytes] = []
        while stream.image.poll_messages(lambda payload, _header: messages.append(payload), 100):
            stream.drive()
        return messages


class ServiceNode:
    """Its log is written record by record with `append`; `commit` lets the container execute what was appended."""

    def __init__(self, directory: Path, *, segment_length_bytes: int = 1 << 20) -> None:
        self.directory = directory
        self.clock = VirtualClock()
        self.client = StreamClient()
        self.memory = HeapMemoryProvider()
        self.archive = Archive(
            str(directory / "archive"),
            storage=FileStorage(open_lmdb),
            clock=self.clock,
            client=self.client,
            sync="none",
            segment_length_bytes=segment_length_bytes,
            low_space_bytes=0,
        )
        self.log = Stream(stream_id=100, initial_term_id=0, term_length=1 << 20)
        self.recording = self.archive.record(self.log.image)
        self.leadership_term_id = 0
        self.time = 1000
        self.leader_term = self._counter(CounterType.LEADER_TERM, -1)
        self.log_recording = self._counter(CounterType.LOG_RECORDING, self.recording.recording_id)
        self.service_position = self._counter(CounterType.SERVICE_POSITION, 0)
        self.commit_position = self._counter(CounterType.COMMIT_POSITION, 0)
        self.recovery: Any = None
        self.announced: list[Any] = []

    def _counter(self, kind: CounterType, value: int, key: bytes = b"") -> Counter:
        counter = self.client.counters.allocate(int(kind), kind.name, key)
        counter.set(value)
        return counter

    def set_recovery(
        self, leadership_term_id: int = -1, position: int = 0, timestamp: int = 0, recording_id: int | None = None
    ) -> None:
        """Counter 204, without which no service starts."""
        if self.recovery is not None:
            self.client.counters.free(self.recovery.counter_id)
        key = struct.pack("<qqqii", leadership_term_id, position, timestamp, 0, 0 if recording_id is None else 1)
        key += b"" if recording_id is None else struct.pack("<q", recording_id)
        self.recovery = self._counter(CounterType.RECOVERY_STATE, 0, key)

    def be_standby(self) -> None:
        """Counter 1098, which a standby has."""
        self._counter(CounterType.STANDBY_SNAPSHOTS, 0)

    def take_orders(self) -> None:
        """Counter 1090, of a module that decides what becomes of a service that raised."""
        self._counter(CounterType.RECORD_ORDERS, 0)

    # The log

    def append(self, record: bytes) -> int:
        """Appends and records one record; the position after it."""
        position = self.log.offer(record)
        while position == BACK_PRESSURED:
            self.archive.do_work(0)
            position = self.log.offer(record)
        assert position > 0
        while self.archive.do_work(0):
            pass
        return position

    def commit(self, position: int | None = None) -> None:
        self.commit_position.set(self.log.position if position is None else position)

    def begin_term(
        self, leadership_term_id: int, *, leads: bool, time_unit: int = ClusterTimeUnit.MILLIS, app_version: int = 1
    ) -> int:
        self.leadership_term_id = leadership_term_id
        base = self.log.position
        position = self.append(
            codecs.NEW_LEADERSHIP_TERM_EVENT.encode(
                leadership_term_id=leadership_term_id,
                log_position=base + 96,
                timestamp=self.time,
                term_base_log_position=base,
                leader_member_id=0,
                log_session_id=5,
                time_unit=time_unit,
                app_version=app_version,
            )
        )
        if leads:
            self.leader_term.set(leadership_term_id)
        return position

    def open_session(self, session_id: int, channel: str = "aeron:udp?endpoint=client:1", stream_id: int = 102) -> int:
        return self.append(
            codecs.SESSION_OPEN_EVENT.encode(
                leadership_term_id=self.leadership_term_id,
                correlation_id=session_id + 100,
                cluster_session_id=session_id,
                timestamp=self.time,
                response_stream_id=stream_id,
                response_channel=channel,
                encoded_principal=b"principal",
            )
        )

    def close_session(self, session_id: int, reason: int = 0) -> int:
        return self.append(
            codecs.SESSION_CLOSE_EVENT.encode(
                leadership_term_id=self.leadership_term_id,
                cluster_session_id=session_id,
                timestamp=self.time,
                close_reason=reason,
            )
        )

    def message(self, session_id: int, payload: bytes, timestamp: int | None = None) -> int:
        header = codecs.SESSION_MESSAGE_HEADER.encode(
            leadership_term_id=self.leadership_term_id,
            cluster_session_id=session_id,
            timestamp=self.time if timestamp is None else timestamp,
        )
        return self.append(header + payload)

    def timer(self, correlation_id: int) -> int:
        return self.append(
            codecs.TIMER_EVENT.encode(
                leadership_term_id=self.leadership_term_id, correlation_id=correlation_id, timestamp=self.time
            )
        )

    def snapshot_action(self, flags: int = 0) -> int:
        return self.append(
            codecs.CLUSTER_ACTION_REQUEST.encode(
                leadership_term_id=self.leadership_term_id,
                log_position=self.log.position + 96,
                timestamp=self.time,
                action=codecs.ClusterAction.SNAPSHOT,
                flags=flags,
            )
        )

    # The container

    def container(self, service: Any, *, service_id: int = 0, cluster_id: int = 0, **limits: Any) -> ServiceContainer:
        client: Any = self.client
        container = ServiceContainer(
            service,
            ContainerIdentity(str(self.directory / "cluster"), 0, service_id, cluster_id),
            client=client,
            clock=self.clock,
            open_recording=self.archive.reader,
            memory=self.memory,
            limits=ContainerLimits(**limits),
        )
        container.on_start()
        return container

    def cycle(self, container: ServiceContainer) -> int:
        """One duty cycle of the container and of what the node does beside it, 100 us later."""
        self.clock.advance(100_000)
        work_count = container.do_work(self.clock.now())
        self.client.do_work(self.clock.now())
        self.archive.do_work(self.clock.now())
        return work_count

    def run(
        self, container: ServiceContainer, until: Callable[[], object] | None = None, cycles_max: int = 2000
    ) -> None:
        """Cycles until the condition holds (default: everything committed is executed); asserts that it does."""
        done = until or (lambda: self.service_position.value == self.commit_position.value)
        for _ in range(cycles_max):
            if done():
                return
            self.cycle(container)
        raise AssertionError(
            f"not reached after {cycles_max} duty cycles: state={container.state} hold={container.hold}"
        )

    def asked(self) -> list[tuple[str, Any]]:
        """What the container sent to the consensus module: (message name, values), payload for service messages; what
        code it has is in `announced`."""
        found = []
        for message in self.client.received(self.client.by_stream[105]):
            decoded = ordo_codecs.decode_any(message)
            assert decoded is not None
            table, values = decoded
            if table is ordo_codecs.SERVICE_VERSIONS:
                self.announced.append(values)
                continue
            found.append((table.name, message[32:] if table is codecs.SESSION_MESSAGE_HEADER else values))
        return found

    def tell(self, message: bytes) -> None:
        """From the consensus module to its services."""
        assert self.client.by_stream[104].offer(message) > 0

    def egress(self, channel: str = "aeron:udp?endpoint=client:1", stream_id: int = 102) -> list[tuple[Any, bytes]]:
        """(header values, payload) of what was sent to the clients of a channel."""
        messages = self.client.received(self.client.egress[channel, stream_id])
        return [(codecs.SESSION_MESSAGE_HEADER.decode(message), message[32:]) for message in messages]

    def close(self) -> None:
        self.archive.close()
