"""A service container that executes a recorded log outside a node, and notes what its service does.

It is the container of a node, as a follower runs it: the same callbacks, timers, sessions, requests, versions and
snapshots. What it would send goes nowhere, and the members' snapshots are not taken again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ordo.cluster.container.service_container import ContainerIdentity, ServiceContainer
from ordo.cluster.container.streams.loop import ContainerSession, MessageRun
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import SNAPSHOT_MESSAGE_BYTES_MAX
from ordo.cluster.wire.streams import topic_of
from ordo.debugging.replaying.effects import Effect
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.memory import HeapMemoryProvider
from ordo.runtime.payloads import to_bytes, to_utf8
from ordo.service_api.snapshot import SnapshotWriter
from ordo.service_api.snapshot_demand import demand_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.container.service_container import OpenRecording
    from ordo.cluster.container.versions import ServiceVersions
    from ordo.debugging.replaying.quiet_client import QuietClient
    from ordo.service_api.service import Payload
    from ordo.transport.client.client import TransportClient

MEMBER_ID = 0


class NotedSession(ContainerSession):
    """A session whose messages to the client are noted. Those of a native service, by `offer_native`, are not."""

    _container: DebugContainer

    def offer(self, payload: Payload) -> int:
        result = super().offer(payload)
        self._container.note("egress", self.id, payload)
        return int(result)


class DebugContainer(ServiceContainer):
    """The container of one service of a log. `effects`: what was noted; None: nothing is."""

    effects: list[Effect] | None = None

    def __init__(
        self,
        versions: ServiceVersions,
        client: QuietClient,
        clock: VirtualClock,
        opener: OpenRecording,
        service_id: int,
    ) -> None:
        super().__init__(
            versions,
            ContainerIdentity("debug", MEMBER_ID, service_id),
            client=cast("TransportClient", client),
            clock=clock,
            open_recording=opener,
            memory=HeapMemoryProvider(),
        )
        client.sink = self._on_sent
        self.execution.tells_failures = False  # who replays is told by what `do_work` raises
        self._executed = MessageRun(self)

    def _on_sent(self, channel: str, message: bytes) -> None:
        """Note what the service has asked its cluster for: it goes to the consensus module, or to a topic."""
        found = None if self.effects is None else ordo_codecs.decode_any(message)
        if found is None:
            return
        table, values = found
        topic = topic_of(channel)
        if topic is not None:
            self.note(
                "publish",
                values.sequence,
                topic.encode() + b":" + message[codecs.HEADER_LENGTH_BYTES + table.block_length :],
            )
        elif table is codecs.SESSION_MESSAGE_HEADER:
            self.note("offer", 0, message[codecs.SESSION_HEADER_LENGTH_BYTES :])
        elif table is codecs.SCHEDULE_TIMER:
            self.note("schedule", values.correlation_id, values.deadline)
        elif table is codecs.CANCEL_TIMER:
            self.note("cancel", values.correlation_id)
        elif table is codecs.CLOSE_SESSION:
            self.note("close", values.cluster_session_id)

    def save(self, position: int, append: Callable[[bytes], None]) -> None:
        """Append all that a snapshot of this position consists of. Raises ServiceError."""
        for message in container_snapshot.encode(self._state.describe(position)):
            append(message)
        self.save_service(append)

    def save_service(self, append: Callable[[bytes], None]) -> None:
        """Append what the service itself writes into a snapshot. Raises ServiceError."""
        demand_snapshots(self.service)
        writer = SnapshotWriter(append, SNAPSHOT_MESSAGE_BYTES_MAX)
        self.execution.begin_callback("on_take_snapshot")
        self.service.on_take_snapshot(writer)
        writer.close()

    def note(self, kind: str, key: int, value: Payload | int = b"") -> None:
        """Note something that the service did in the record that is executed."""
        if self.effects is not None:
            kept = value if isinstance(value, int) else to_bytes(value)
            self.effects.append(Effect(self.log_position, kind, key, kept))

    def make_session(
        self, session_id: int, response_stream_id: int, response_channel: str, principal: bytes
    ) -> ContainerSession:
        session = NotedSession(self, session_id, response_stream_id, response_channel, principal)
        session._container = self
        return session

    def set_reply(self, payload: Payload) -> None:
        super().set_reply(payload)
        self.note("answer", self.answered_session_id, payload)

    @property
    def answered_session_id(self) -> int:
        """The session whose message is executed; -1 for a message of a service."""
        session = self._executed.session
        return -1 if session is None else session.id

    def on_rejected(self, session: ContainerSession | None, text: str) -> None:
        super().on_rejected(session, text)
        self.note("reject", -1 if session is None else session.id, to_utf8(text))

    def _take_snapshot(self, position: int) -> None:
        """Pass over the order to take a snapshot: nobody would keep it."""
