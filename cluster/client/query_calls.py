"""The calls of a cluster client that ask the service something (docs/CLIENT.md, Queries)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.cluster.client.query import ClientQueries, PendingQuery, QueryReply
from ordo.cluster.client.settings import ClientSettings, to_ns
from ordo.runtime.errors import ClusterError
from ordo.runtime.payloads import to_bytes

if TYPE_CHECKING:
    from ordo.cluster.client.connection.loop import ClientLoop
    from ordo.service_api.service import Payload
    from ordo.transport.client.client_transport import ClientTransport

QUERY_PARK_NS = 1_000_000


class QueryCalls:
    """The calls that ask; the client itself keeps the session."""

    settings: ClientSettings
    _loop: ClientLoop
    _transport: ClientTransport
    _queries: ClientQueries

    @property
    def is_closed(self) -> bool:
        raise NotImplementedError

    def poll(self, limit: int = ...) -> int:
        raise NotImplementedError

    def _park(self, timeout_ns: int) -> None:
        raise NotImplementedError

    def _closed_error(self) -> ClusterError:
        raise NotImplementedError

    # Queries

    def query(
        self,
        payload: Payload,
        *,
        consistency: str = "linearizable",
        member_id: int | None = None,
        min_position: int | None = None,
        group: str | None = None,
        timeout_s: float | None = None,
    ) -> QueryReply:
        """Ask the service something that changes nothing and take no place in the log; poll until it is answered.

        "linearizable": the answer shows everything that was answered to anybody before this call. "stale": it may be
        older, and says of which position it is; with `min_position` it is no older than that. `member_id` answers, the
        leader by default; with `group` an instance of that application. Asked again by itself, also through a change of
        the leader. Raises ClusterTimeoutError after `timeout_s` (default: message_timeout_s), also where `min_position`
        was not reached; QueryFailedError when the service answers no such query or failed; SessionClosedError, and
        ClusterError for what cannot be asked.
        """
        if self._loop.is_in_callback:
            raise ClusterError("query waits for its answer, which no callback can: use start_query there")
        pending = self.start_query(
            payload,
            consistency=consistency,
            member_id=member_id,
            min_position=min_position,
            group=group,
            timeout_s=timeout_s,
        )
        while not pending.is_done:
            if self.poll() == 0 and not pending.is_done:
                self._park(QUERY_PARK_NS)
        return pending.result()

    def start_query(
        self,
        payload: Payload,
        *,
        consistency: str = "linearizable",
        member_id: int | None = None,
        min_position: int | None = None,
        group: str | None = None,
        timeout_s: float | None = None,
        on_done: Callable[[PendingQuery], object] | None = None,
    ) -> PendingQuery:
        """Send a query without waiting. `poll` sends it, and calls `on_done` when it is done."""
        self._transport.use.check()
        if self.is_closed:
            raise self._closed_error()
        now_ns = self._transport.clock.now()
        self._loop.enter()
        try:
            return self._queries.start(
                to_bytes(payload),
                consistency=consistency,
                member_id=member_id,
                min_position=min_position,
                group=group,
                deadline_ns=now_ns + to_ns(self.settings.seconds(timeout_s)),
                now_ns=now_ns,
                on_done=on_done,
            )
        finally:
            self._loop.leave()
