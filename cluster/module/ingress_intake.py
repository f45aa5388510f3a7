"""Takes the messages of the ingress that are not sequenced, and hands each to the part that handles it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.cluster.wire import codecs
from ordo.runtime.errors import DecodeError
from ordo.sequencer.hosts import IngressHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.operators.operators import Operators
    from ordo.cluster.module.sessions.queries import Queries
    from ordo.cluster.module.sessions.session_control import SessionControl
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.native.clock import Clock
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.streams.image import Image


class IngressIntakeHost(Protocol):
    """The member that receives the messages."""

    @property
    def cluster_time_ms(self) -> int: ...
    def on_invalid_request(self, detail: str) -> None:
        """Count a refused request, and log one line."""


OF_BACKUPS = (codecs.BACKUP_QUERY, codecs.HEARTBEAT_REQUEST)


class IngressIntake(IngressHost):
    """Takes one member's ingress."""

    def __init__(
        self,
        host: IngressIntakeHost,
        core: ConsensusCore,
        sequencer: Sequencer,
        sessions: SessionControl,
        queries: Queries,
        operators: Operators,
        clock: Clock,
        on_stranger: Callable[[str, bytes], None],
    ) -> None:
        """Take the member's parts; `on_stranger` takes a backup's message with its source. It raises DecodeError."""
        self._host = host
        self._on_stranger = on_stranger
        self._core = core
        self._sequencer = sequencer
        self._sessions = sessions
        self._queries = queries
        self._operators = operators
        self._clock = clock

    def on_ingress(self, image: Image, message: bytes, cluster_time: int) -> bool:
        try:
            found = codecs.decode(message)
        except DecodeError:
            self.on_invalid_request("ingress: a message that is cut short")
            return True
        if found is None:
            return True
        table, values = found
        if not self._core.takes_part and table not in OF_BACKUPS:
            return True  # a client asks on at the members of the cluster
        if table is codecs.SESSION_CONNECT_REQUEST:
            self._sessions.connect(values, image, self._core.leader_member_id, cluster_time)
            self._sequencer.request_tick()
        elif table in OF_BACKUPS:
            # here because the consensus endpoint may be open to members only
            self._take(self._on_stranger, image.source_identity, message)
        else:
            self._sessions.on_message(table, values, image, cluster_time)
        return True

    def on_query(self, image: Image, message: bytes) -> None:
        self._take(self._queries.on_query, message, image, self._clock.now())

    def on_operator(self, image: Image, message: bytes) -> None:
        self._take(self._operators.on_message, message, image, self._host.cluster_time_ms)
        self._sequencer.request_tick()

    def on_invalid_request(self, detail: str) -> None:
        self._host.on_invalid_request(detail)

    def _take(self, take: Callable[..., None], *arguments: object) -> None:
        try:
            take(*arguments)
        except DecodeError as error:
            self.on_invalid_request(f"ingress: {error.message}")

    def image_gone(self, image: Image) -> None:
        """Drop what hangs on an image of the ingress."""
        self._sequencer.remove_ingress_image(image)
        self._sessions.image_gone(image)
        self._operators.image_gone(image)
