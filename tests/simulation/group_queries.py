"""What simulated clients ask the application under test, and what must be true of the answers."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ordo.runtime.errors import OrdoError
from tests.simulation.app_service import GROUP, decode_count
from tests.simulation.queries import PENDING_MAX, TIMEOUT_S, Asker, QueryWorld
from tests.simulation.timeline import NEVER_NS

if TYPE_CHECKING:
    from ordo.cluster.client.query import PendingQuery, QueryReply
    from tests.simulation.history import ExecutedLog


class GroupAsking:
    """The queries of one client to the instances; a generator of its own draws them."""

    def __init__(self, client: Asker) -> None:
        self._client = client
        self._world: QueryWorld = client.world
        options = self._world.options
        self._random: Random = self._world.random.stream(f"{client.name} group queries")
        self._pending = 0
        self._untold: list[tuple[int, int]] = []
        """Position and count of answers of which no member has executed so much yet."""
        self._requests = RequestCounts(self._world.executed)
        self._mean_ns = options.query_mean_ns if options.applications else 0
        self.next_ns = 0 if self._mean_ns else NEVER_NS
        self.answered = 0

    def work(self, now_ns: int) -> None:
        """Perhaps asks for something."""
        if not self._mean_ns or now_ns < self.next_ns:
            return
        self.check()
        self.next_ns = now_ns + max(1, int(self._random.expovariate(1.0) * self._mean_ns))
        consistency = self._random.choice(("linearizable", "linearizable", "stale", "stale since"))
        if self._pending < PENDING_MAX:
            self.ask(consistency)

    def forget(self) -> None:
        """The process is gone."""
        self._pending = 0

    def ask(self, consistency: str) -> PendingQuery | None:
        """None when there is no session. A linearizable answer is of no earlier state than any client has seen; nor is
        one of "stale since", which asks for that position."""
        session, history = self._client.session, self._world.clients_history
        if session is None or session.is_closed:
            return None
        min_position = history.seen_position if consistency != "stale" else 0

        def on_done(pending: PendingQuery) -> None:
            self._pending = max(0, self._pending - 1)
            if pending.reply is not None:
                self._take(pending.reply, min_position)

        try:
            pending = session.start_query(
                b"",
                group=GROUP,
                consistency=consistency.split()[0],
                min_position=min_position if consistency == "stale since" else None,
                timeout_s=TIMEOUT_S,
                on_done=on_done,
            )
        except OrdoError as error:
            self._world.fail(f"{self._client.name} could not ask {GROUP}: {error}")
            return None
        self._pending += 1
        return pending

    def _take(self, reply: QueryReply, min_position: int) -> None:
        self.answered += 1
        history = self._world.clients_history
        history.seen_position = max(history.seen_position, reply.log_position)
        if reply.log_position < min_position:
            self._world.fail(
                f"{self._client.name} was answered by {GROUP} for position {reply.log_position}, which is older than "
                f"{min_position}"
            )
        self._untold.append((reply.log_position, decode_count(reply.payload)))

    def check(self) -> None:
        """Each answer counts the requests up to the position that it names."""
        log, waiting = self._world.executed, []
        for position, count in self._untold:
            if position > log.end_position:
                waiting.append((position, count))
            elif (expected := self._requests.up_to(position)) != count:
                self._world.fail(
                    f"{self._client.name} was answered by {GROUP} for position {position} out of another state: "
                    f"{count} requests, expected {expected}"
                )
        self._untold = waiting


class RequestCounts:
    """How many requests of clients stand in the log up to a position."""

    def __init__(self, log: ExecutedLog) -> None:
        self._log = log
        self._counts = [0]

    def up_to(self, position: int) -> int:
        index = self._log.index_after(position)
        for record in self._log.records[len(self._counts) - 1 : index]:
            self._counts.append(self._counts[-1] + (" client=" in record.text))
        return self._counts[index]


class LastGroupQuestion:
    """After the faults the application is asked, again where its answer went with a session, until it has answered."""

    def __init__(self, asking: GroupAsking) -> None:
        self._asking = asking
        self._pending: PendingQuery | None = None

    def is_answered(self) -> bool:
        if self._pending is None or self._pending.error is not None:
            self._pending = self._asking.ask("linearizable")
        return self._pending is not None and self._pending.reply is not None
