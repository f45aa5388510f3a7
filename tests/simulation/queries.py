"""What simulated clients ask without taking a place in the log, and what must be true of the answers."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from ordo.runtime.errors import OrdoError
from tests.simulation.operations import NONE_VALUE
from tests.simulation.questions import Answer, decode_answer, encode_question
from tests.simulation.timeline import NEVER_NS

if TYPE_CHECKING:
    from ordo.cluster.client.query import PendingQuery, QueryReply
    from ordo.cluster.client.session import ClusterClient
    from ordo.runtime.random import RandomSource
    from tests.simulation.history import ClientHistory, ExecutedLog
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.options import Options

PENDING_MAX = 20
TIMEOUT_S = 2.0
DEPOSED_NS = 1_000_000_000
DEPOSED_MEAN_NS = 2_000_000


class QueryWorld(Protocol):
    """What the queries of a client need of the world."""

    options: Options
    random: RandomSource
    executed: ExecutedLog
    clients_history: ClientHistory

    @property
    def now_ns(self) -> int: ...
    def members(self) -> list[SimulatedNode]: ...
    def fail(self, text: str) -> None: ...


class Asker(Protocol):
    """The client whose queries these are."""

    name: str
    client_id: int
    session: ClusterClient | None

    @property
    def world(self) -> QueryWorld: ...
    @property
    def asking(self) -> Asking: ...


class LastQuestions:
    """After the faults each member is asked, again where its answer went with a session, until it has answered: of the
    configuration those that the client knows."""

    def __init__(self, client: Asker) -> None:
        self._client = client
        self._pending: dict[int, PendingQuery | None] = {}

    def are_answered(self) -> bool:
        session = self._client.session
        if session is None or not session.is_connected:
            return False
        members = {node.member_id for node in self._client.world.members()}
        asked = sorted(members & session.ingress_endpoints.keys())
        for member_id in asked:
            query = self._pending.get(member_id)
            if query is None or query.error is not None:
                self._pending[member_id] = self._client.asking.ask(0, member_id, "linearizable")
        return all((query := self._pending[one]) is not None and query.reply is not None for one in asked)


class Asking:
    """The queries of one client, of all kinds, to all members; a generator of its own draws them."""

    def __init__(self, client: Asker) -> None:
        self._client = client
        self._world: QueryWorld = client.world
        self._random: Random = client.world.random.stream(f"{client.name} queries")
        self._pending: set[int] = set()
        self._leader_id = -1
        self._deposed_id = -1
        self._deposed_until_ns = 0
        self.next_ns = 0 if client.world.options.query_mean_ns else NEVER_NS
        self.answered = 0
        self.written_last = 0
        """The register that this client wrote last."""

    def forget(self) -> None:
        """The process is gone."""
        self._pending.clear()

    def work(self, now_ns: int) -> None:
        """Perhaps asks for something."""
        options = self._world.options
        self._watch_leader(now_ns)
        if now_ns < self.next_ns:
            return
        session = self._client.session
        assert session is not None
        known = sorted(session.ingress_endpoints)
        has_old_leader = now_ns < self._deposed_until_ns and self._deposed_id in known
        mean_ns = min(DEPOSED_MEAN_NS, options.query_mean_ns) if has_old_leader else options.query_mean_ns
        self.next_ns = now_ns + max(1, int(self._random.expovariate(1.0) * mean_ns))
        member_id = self._random.choice([None, *known, *[self._deposed_id] * (4 * has_old_leader)])
        consistency = self._random.choice(("linearizable", "linearizable", "stale", "stale since"))
        register = self.written_last if has_old_leader else self._random.randrange(options.registers)
        if len(self._pending) < PENDING_MAX:
            self.ask(register, member_id, consistency)

    def _watch_leader(self, now_ns: int) -> None:
        """A leader that was replaced may not know it yet: it is asked more than others."""
        session = self._client.session
        assert session is not None
        if session.leader_member_id not in (self._leader_id, -1):
            self._deposed_id, self._leader_id = self._leader_id, session.leader_member_id
            self._deposed_until_ns = now_ns + DEPOSED_NS if self._deposed_id >= 0 else 0
            self.next_ns = min(self.next_ns, now_ns + DEPOSED_MEAN_NS)

    def ask(self, register: int, member_id: int | None, consistency: str) -> PendingQuery | None:
        """None when there is no session. A linearizable answer shows all that any client saw before; so does one of
        "stale since", which asks for that position."""
        session, history = self._client.session, self._world.clients_history
        if session is None or session.is_closed:
            return None
        is_linearizable = consistency == "linearizable"
        handle = history.asked(self._client.client_id, register, self._world.now_ns) if is_linearizable else 0
        min_position = history.seen_position if consistency != "stale" else 0

        def on_done(pending: PendingQuery) -> None:
            self._pending.discard(pending.correlation_id)
            if pending.reply is None:
                history.given_up(handle)
                return
            answer = decode_answer(pending.reply.payload)
            self._check(answer, pending.reply, min_position)
            value = None if answer.value == NONE_VALUE else answer.value
            history.told(handle, value, pending.reply.log_position, self._world.now_ns)

        try:
            pending = session.start_query(
                encode_question(register),
                consistency=consistency.split()[0],
                member_id=member_id,
                min_position=min_position if consistency == "stale since" else None,
                timeout_s=TIMEOUT_S,
                on_done=on_done,
            )
        except OrdoError as error:
            self._world.fail(f"{self._client.name} could not ask: {error}")
            return None
        self._pending.add(pending.correlation_id)
        return pending

    def _check(self, answer: Answer, reply: QueryReply, min_position: int) -> None:
        """The answer is the state at the position it names, and not older than it must be."""
        self.answered += 1
        history, log, name = self._world.clients_history, self._world.executed, self._client.name
        history.seen_position = max(history.seen_position, reply.log_position)
        if reply.log_position < min_position:
            self._world.fail(
                f"{name} was answered by member {reply.member_id} for position {reply.log_position}, "
                f"which is older than {min_position}"
            )
        index = log.index_after(reply.log_position)
        expected = log.records[index - 1].digest if index else ""
        if answer.digest != expected:
            self._world.fail(
                f"{name} was answered by member {reply.member_id} for position {reply.log_position} out of another "
                f"state: {answer.digest}, expected {expected}"
            )
