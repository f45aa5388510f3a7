"""One simulated client: the cluster client that ships, asking the test service for things and keeping the answers."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.session_states import ClientState
from ordo.cluster.client.settings import ClientSettings
from ordo.runtime.errors import OrdoError
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.driver.media_driver import MediaDriver
from tests.simulation.group_queries import GroupAsking
from tests.simulation.nodes import CLOCK_START_NS, PORT, node_address
from tests.simulation.operations import NONE_VALUE, Kind, Reply, Request, decode_reply
from tests.simulation.processes import start_process
from tests.simulation.queries import Asking, QueryWorld
from tests.simulation.requests import Requesting
from tests.simulation.timeline import NEVER_NS, Actor
from tests.simulation.tracking import Tracking

if TYPE_CHECKING:
    from tests.simulation.network import SimulatedNetwork
    from tests.simulation.trace import Trace

MS = 1_000_000
S = 1_000_000_000
KIB = 1024
CONNECTED_TICK_NS = 50 * MS
CONNECTING_TICK_NS = 2 * MS
OUTSTANDING_MAX = 30
QUIET_NS = 500 * MS
TIMER_DELAYS_MS = (0, 1, 20, 500, 2000)


class ClientWorld(QueryWorld, Protocol):
    """What a client needs of the world that it lives in."""

    network: SimulatedNetwork
    trace: Trace
    last_written: dict[int, int]

    @property
    def takes_requests(self) -> bool: ...
    def note(self, text: str) -> None: ...
    def on_answer(self, client: SimulatedClient, reply: Reply) -> None: ...


class SimulatedClient(Actor):
    """A client through all its sessions. Numbers of requests go on from session to session."""

    def __init__(self, world: ClientWorld, client_id: int) -> None:
        self.world = world
        self.client_id = client_id
        self.name = f"client{client_id}"
        self.address = f"10.0.1.{client_id + 1}"
        self.random: Random = world.random.stream(self.name)
        self.more_endpoints: list[str] = []
        """Of nodes that are no members, where it looks as well."""
        self.number = 0
        self.lives = 0
        self.cycle_ns = world.options.cycle_ns
        self.is_working = True
        self.session: ClusterClient | None = None
        self.answered_last = 0
        self.asking = Asking(self)
        self.group_asking = GroupAsking(self)
        self.requesting = Requesting(self) if world.options.requests else None
        self.tracking = Tracking(self) if world.options.tracks else None
        self._driver: MediaDriver | None = None
        self._transport: ClientTransport | None = None
        self._next_operation_ns = 0
        self._reopen_ns = 0
        self._timers: list[int] = []
        self._kinds = [Kind.READ, Kind.READ, Kind.WRITE, Kind.WRITE, Kind.CAS]
        self._kinds += [Kind.TIMER, Kind.CANCEL] if world.options.timers else []
        self._kinds += [Kind.MESSAGE] if world.options.messages else []
        self._unanswered: set[int] = set()

    # -- lives -----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """A new process: driver, transport, and a session on its way."""
        world = self.world
        self.lives += 1
        process = start_process(world, self.name, self.address, self.lives, 5 * S)
        self.clock, self.host, self._driver = process.clock, process.host, process.driver
        self._transport = process.transport
        self.due_ns = world.now_ns
        self._open()

    def _open(self) -> None:
        options = self.world.options
        assert self._transport is not None
        self._unanswered.clear()
        tracking = self.tracking
        if tracking is not None:
            tracking.begin()
        self.session = ClusterClient(
            [*(f"{node_address(i)}:{PORT}" for i in range(options.nodes + options.spares)), *self.more_endpoints],
            f"aeron:udp?endpoint={self.address}:0",
            on_message=self._on_message,
            on_acknowledged=None if tracking is None else tracking.on_acknowledged,
            on_unsequenced=None if tracking is None else tracking.on_unsequenced,
            transport=self._transport,
            wait=False,
            journal=self.requesting.make_journal() if self.requesting else None,
            settings=ClientSettings(
                ingress_channel="aeron:udp?term-length=64k",
                egress_term_length_bytes=64 * KIB,
                keep_alive_interval_s=options.session_timeout_ns // 5 / S,
                connect_attempt_timeout_s=0.5,
                new_leader_timeout_s=4,
                credentials=self.name.encode() if options.names_clients else b"",
            ),
        )
        if self.requesting is not None:
            self.requesting.recover()

    def crash(self) -> None:
        """The process is gone; nobody is told."""
        self.world.note(f"{self.name} crashed")
        if self.host is not None:
            self.host.close()
        self.release()
        self._unanswered.clear()
        if self.requesting is not None:
            self.requesting.crash()

    def release(self) -> None:
        """Forgets the process without a word to anybody."""
        self.session = self._driver = self._transport = self.host = None
        self.asking.forget()
        self.group_asking.forget()
        self.due_ns = NEVER_NS
        self.paused_until_ns = 0

    # -- time ------------------------------------------------------------------------------------------------------

    def step(self, now_ns: int) -> None:
        """Perhaps asks for something, polls once, and sleeps until something is due."""
        self.clock.advance(now_ns + CLOCK_START_NS - self.clock.now())
        if self._may_ask and self.session is not None and self.session.state is ClientState.CONNECTED:
            self._work(now_ns)
        if self.requesting is not None and self.session is not None and self.session.state is ClientState.CONNECTED:
            self.requesting.repeat(now_ns)
        self._poll(now_ns)
        self.sleep_for(now_ns, self._idle_ns(now_ns))

    @property
    def _may_ask(self) -> bool:
        return self.is_working and self.world.takes_requests

    def _idle_ns(self, now_ns: int) -> int:
        """How long it may sleep."""
        host, driver = self.host, self._driver
        assert host is not None and driver is not None
        is_connected = self.session is not None and self.session.state is ClientState.CONNECTED
        tick_ns = CONNECTED_TICK_NS if is_connected else CONNECTING_TICK_NS
        driver.park(self.clock.now(), tick_ns)
        wait_ns = min(tick_ns, host.parked_ns)
        if is_connected and self._may_ask:
            wait_ns = min(wait_ns, self._next_operation_ns - now_ns, max(self.asking.next_ns - now_ns, 0))
            wait_ns = min(wait_ns, max(self.group_asking.next_ns - now_ns, 0))
        return wait_ns

    def _poll(self, now_ns: int) -> None:
        if self.session is None:
            if now_ns >= self._reopen_ns:
                self._open()
            else:
                assert self._transport is not None
                self._transport.drive()
            return
        state, leadership_term_id = self.session.state, self.session.leadership_term_id
        try:
            self.session.poll()
        except OrdoError as error:
            self._lose_session(now_ns, str(error))
            return
        if self.session.state is not state or self.session.leadership_term_id != leadership_term_id:
            self._note_state(self.session, leadership_term_id)

    def _note_state(self, session: ClusterClient, term_id_before: int) -> None:
        leadership_term_id = session.leadership_term_id
        if leadership_term_id != term_id_before and self.requesting is None:
            self._unanswered.clear()  # what went to the old leader may never be answered, and must not stop the rest
        self.world.note(f"{self.name} {session.state.name} session={session.session_id} term={leadership_term_id}")

    def _lose_session(self, now_ns: int, why: str) -> None:
        self.world.note(f"{self.name} session over: {why}")
        if self.session is not None:
            self.session.close()
        self.session = None
        self._unanswered.clear()
        self._reopen_ns = now_ns + self.random.choice((1, 50, 300)) * MS

    def begin_again(self, now_ns: int) -> None:
        """Another client in the same process, with another identity unless a journal has one."""
        self._lose_session(now_ns, "it begins again")

    # -- work ------------------------------------------------------------------------------------------------------

    def _work(self, now_ns: int) -> None:
        if self.world.options.query_mean_ns:
            self.asking.work(now_ns)
            self.group_asking.work(now_ns)
        if now_ns < self._next_operation_ns:
            return
        options = self.world.options
        self._next_operation_ns = now_ns + max(1, int(self.random.expovariate(1.0) * options.operation_mean_ns))
        if options.leave_chance and self.random.random() < options.leave_chance:
            self.world.trace.count_fault("client leaves")
            self._lose_session(now_ns, "it leaves")
            return
        if options.quiet_chance and self.random.random() < options.quiet_chance:
            self.world.trace.count_fault("client is quiet")
            self._next_operation_ns += self.random.choice((QUIET_NS, min(3 * S, 2 * options.session_timeout_ns)))
            return
        if len(self._unanswered) < OUTSTANDING_MAX:
            self.offer(self._draw(), self.random.randrange(self.world.options.padding_max + 1))

    def _draw(self) -> Request:
        options, random = self.world.options, self.random
        number = self.number + 1
        register = random.randrange(options.registers)
        kind = random.choice(self._kinds)
        if random.random() < 0.001:
            kind = Kind.CLOSE
        identity = self.client_id << 32 | number
        if options.poison_chance and random.random() < options.poison_chance:
            kind = Kind.POISON
        if kind is Kind.TIMER:
            timer = random.choice([identity, *self._timers[-2:]])
            self._timers = [*self._timers[-8:], timer]
            return Request(self.client_id, number, kind, timer, random.choice(TIMER_DELAYS_MS))
        if kind is Kind.CANCEL and self._timers:
            return Request(self.client_id, number, kind, random.choice(self._timers))
        if kind is Kind.CAS:
            expected = self.world.last_written.get(register, NONE_VALUE)
            return Request(self.client_id, number, kind, register, identity, expected)
        return Request(self.client_id, number, kind, register, identity)

    def offer(self, request: Request, padding: int = 0) -> bool:
        """One try; True when the ingress has taken it."""
        assert self.session is not None
        try:
            if self.requesting is not None:
                result = int(self.requesting.submit(request, padding))
            else:
                result = self.session.offer(request.encode(padding))
        except OrdoError as error:
            self._lose_session(self.world.now_ns, str(error))
            return False
        if result <= 0:
            return False
        self.number = request.number
        if self.tracking is not None:
            self.tracking.offered(self.session.last_number, request)
        self._unanswered.add(request.number)
        self.world.clients_history.offered(request, self.world.now_ns)
        if request.kind is Kind.WRITE:
            self.asking.written_last = request.first
            self.world.last_written[request.first] = request.second
        return True

    @property
    def has_all_answers(self) -> bool:
        """No request is under way."""
        if self.session is None or self.requesting is None:
            return True
        return self.session.outstanding_requests == 0 and self.requesting.has_all_answers

    def probe(self) -> bool:
        """Asks once more after the faults; True when the ingress has taken it."""
        if self.session is None or self.session.state is not ClientState.CONNECTED:
            return False
        return self.offer(Request(self.client_id, self.number + 1, Kind.READ, 0))

    def _on_message(self, session_id: int, timestamp: int, payload: bytes) -> None:
        self.take_reply(decode_reply(payload))

    def take_leaving_out(self, request: Request) -> None:
        """The cluster has left the request out: nobody may have executed it."""
        self._unanswered.discard(request.number)
        self.answered_last = max(self.answered_last, request.number)
        if (self.client_id, request.number) in self.world.clients_history.executed:
            self.world.fail(f"{self.name}: request {request.number} was executed, and is said to be left out")

    def take_forgotten(self, number: int) -> None:
        """A request was executed, and its answer is not kept any more: whatever it was, this client does not know."""
        self._unanswered.discard(number)
        self.answered_last = max(self.answered_last, number)

    def take_reply(self, reply: Reply) -> None:
        """What was asked for has an answer, for the first time."""
        self._unanswered.discard(reply.number)
        self.answered_last = max(self.answered_last, reply.number)
        self.world.on_answer(self, reply)
