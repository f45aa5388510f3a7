"""A whole cluster with clients in one thread and virtual time. Events drive it: idle time is skipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.consensus.state.states import ElectionState
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.cluster_time import time_ns
from ordo.runtime.random import RandomSource
from tests.simulation.applications import SimulatedApplication
from tests.simulation.canaries import SimulatedCanary
from tests.simulation.clients import SimulatedClient
from tests.simulation.consumers import SimulatedConsumer, make_consumers
from tests.simulation.feeds import SimulatedReader
from tests.simulation.history import ClientHistory, Executed, ExecutedLog, Violation
from tests.simulation.invariants import (
    ArrivalsAreOfTheLog,
    CommitIsOnAQuorum,
    Invariant,
    MessagesAreNumbered,
    ServicesAgree,
    all_invariants,
)
from tests.simulation.network import Faults, SimulatedNetwork
from tests.simulation.nodes import SimulatedNode, node_address, node_name
from tests.simulation.operations import Reply, Request
from tests.simulation.options import Options
from tests.simulation.renewals import renew_forgotten
from tests.simulation.timeline import NEVER_NS, Actor, Timeline
from tests.simulation.trace import Trace
from tests.simulation.writers import WriterWatch

if TYPE_CHECKING:
    from tests.simulation.invariants.new_epoch_continues import NewEpochContinues

MS = 1_000_000
CHECKPOINT_INTERVAL_NS = 200 * MS
Participant = SimulatedNode | SimulatedClient | SimulatedApplication | SimulatedConsumer | SimulatedReader


class World(Timeline):
    """Time, network, members and clients; hears everything that invariants are about.

    An invariant that does not hold is kept in `violation` (the first of them), and raised after the step it was
    found in, since it may be found inside a callback of the cluster.
    """

    def __init__(self, seed: int, options: Options) -> None:
        self.seed = seed
        self.options = options
        self.copy_failure_chance = options.copy_failure_chance
        self.random = RandomSource(seed)
        clock = VirtualClock()
        self.trace = Trace()
        faults = Faults(
            options.loss,
            options.duplication,
            options.corruption,
            options.reordering,
            options.delay_min_ns,
            max(options.delay_min_ns, options.delay_max_ns),
            options.reorder_delay_ns,
            checksums=True,
            truncation=options.truncation,
        )
        names = {node_name(member_id): node_address(member_id) for member_id in range(options.nodes + options.spares)}
        super().__init__(clock, SimulatedNetwork(clock, self.random.stream("network"), faults, names))
        self.executed = ExecutedLog()
        self.clients_history = ClientHistory()
        self.last_written: dict[int, int] = {}
        self.violation: Violation | None = None
        self._takes_requests = not options.kept_bytes_max
        self.is_at_rest = False
        """The cluster was told to end, and an operator looks at its folders before it is started again."""
        self.nodes = [self.make_member(member_id) for member_id in range(options.nodes + options.spares)]
        self.clients = [SimulatedClient(self, client_id) for client_id in range(options.clients)]
        self.writers = WriterWatch()
        self.applications = [SimulatedApplication(self, index, self.writers) for index in range(options.applications)]
        if options.canary:
            self.applications.append(SimulatedCanary(self, options.applications, self.writers))
        self.consumers = make_consumers(self)
        self.readers = [SimulatedReader(self, index) for index in range(options.feed_readers)]
        self.invariants: list[Invariant] = all_invariants(self)
        self._committed: CommitIsOnAQuorum | NewEpochContinues = next(
            check for check in self.invariants if isinstance(check, CommitIsOnAQuorum)
        )
        self._listen()
        self.actors.extend(self.participants)
        self._next_checkpoint_ns = CHECKPOINT_INTERVAL_NS

    def make_member(self, member_id: int) -> SimulatedNode:
        return SimulatedNode(self, member_id)

    def _listen(self) -> None:
        self._on_step = [check.on_step for check in self.invariants if check.hears("on_step")]
        self._on_moved = [check.on_moved for check in self.invariants if check.hears("on_moved")]
        self._on_answer = [check.on_answer for check in self.invariants if check.hears("on_answer")]
        self._on_executed = [check.on_executed for check in self.invariants if check.hears("on_executed")]

    def watch_only(self, invariant: Invariant) -> None:
        """From now on nothing else must hold."""
        self.invariants[:] = [invariant]
        self._listen()

    def begin_epoch(self, invariant: NewEpochContinues, base_position: int) -> None:
        """What was executed and committed is what one member has, up to a position, and what comes from there on."""
        former, self.executed = self.executed, self.executed.cut(base_position)
        self._committed = invariant
        self.watch_only(invariant)
        for reader in self.readers:
            reader.begin_epoch(former, base_position)

    # -- time ------------------------------------------------------------------------------------------------------

    def run(self, duration_ns: int, is_done: Callable[[], bool] | None = None) -> bool:
        """Lets virtual time pass; True as soon as `is_done`, which is asked every millisecond."""
        end_ns = self.now_ns + duration_ns
        asked_ns = NEVER_NS if is_done is None else 0
        while self.now_ns < end_ns:
            latest_ns = self._next_checkpoint_ns + CHECKPOINT_INTERVAL_NS  # where nothing is due for long
            self.run_until(min(end_ns, latest_ns), min(self._next_checkpoint_ns, asked_ns))
            if self.violation is not None:
                raise self.violation
            if self.now_ns >= self._next_checkpoint_ns:
                self._next_checkpoint_ns = self.now_ns + CHECKPOINT_INTERVAL_NS
                self.check_all()
            if is_done is not None and self.now_ns >= asked_ns:
                asked_ns = self.now_ns + MS
                if is_done():
                    return True
        return False

    def on_changed(self, actor: Actor) -> None:
        assert isinstance(actor, SimulatedNode)
        for on_step in self._on_step:
            on_step(actor)

    def on_moved(self, actor: Actor) -> None:
        assert isinstance(actor, SimulatedNode)
        for on_step in self._on_moved:
            on_step(actor)

    # -- what happens ----------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.trace.note(self.now_ns, text)

    def fail(self, text: str) -> None:
        """An invariant does not hold."""
        if self.violation is None:
            self.note(f"VIOLATION {text}")
            self.violation = Violation(text)
            self.has_failed = True

    def count_fault(self, kind: str) -> None:
        self.trace.count_fault(kind)

    def note_end(self, node: SimulatedNode) -> None:
        """A duty cycle ended in the middle: what it had acknowledged or committed may be known to others already."""
        for invariant in self.invariants:
            invariant.on_ended(node)

    def check_all(self) -> None:
        """The costly checks."""
        self.trace.mix(self.network.digest)
        for invariant in self.invariants:
            invariant.on_checkpoint()
        self._attend_to_removed()

    def _attend_to_removed(self) -> None:
        """Nodes that were removed end by themselves; an operator starts those that were added again meanwhile.

        After an order to shut down nobody leads, and the log of a member that runs may name one that was promoted
        last: it cannot be elected alone, so the other one is started, too.
        """
        for node in self.nodes:
            if node.is_alive and node.module.member.has_ended:
                node.starts_again = node.module.member.starts_again
                node.close()
                node.was_removed = not node.starts_again
            if node.starts_again and not node.is_alive:
                self.trace.count_fault("started again by itself")
                node.boot()
        for node in self.nodes:
            if node.notes_closed_ingress():
                self.trace.count_fault("no room for messages")
            if node.is_forgotten and not node.is_alive and not self.is_at_rest:
                renew_forgotten(self, node)
            if node.may_go_on and not node.is_alive:
                self.trace.count_fault("started again with room")
                node.boot()
        for node in self._expected_nodes():
            if node.was_removed and not node.is_alive and not self.is_at_rest:
                node.boot()
                node.was_removed = not node.is_alive

    def on_booted(self, node: SimulatedNode) -> None:
        for invariant in self.invariants:
            invariant.on_booted(node)

    def on_answer(self, client: SimulatedClient, reply: Reply) -> None:
        for on_answer in self._on_answer:
            on_answer(reply)
        try:
            self.clients_history.answered(reply, self.now_ns)
        except Violation as error:
            self.fail(str(error))

    # -- what services report (tests.simulation.service.Observer) ---------------------------------------------------

    def on_executed(self, member_id: int, position: int, digest: str, text: str, wrong: str) -> None:
        if wrong:
            self.fail(f"node{member_id} at position {position}: {wrong}")
        record = Executed(position, digest, text)
        for check_executed in self._on_executed:
            check_executed(self.nodes[member_id], record)

    def on_numbered(self, member_id: int, position: int, sequence: int) -> None:
        for invariant in self.invariants:
            if isinstance(invariant, MessagesAreNumbered):
                invariant.on_numbered(member_id, position, sequence)

    def on_arrived(self, member_id: int, position: int, arrival_ns: int | None) -> None:
        for invariant in self.invariants:
            if isinstance(invariant, ArrivalsAreOfTheLog):
                invariant.on_arrived(member_id, position, arrival_ns)

    def on_answer_numbered(self, position: int, sequence: int | None) -> None:
        for invariant in self.invariants:
            if isinstance(invariant, MessagesAreNumbered):
                invariant.on_answer_numbered(position, sequence)

    def on_started(self, member_id: int, position: int, digest: str) -> None:
        self.nodes[member_id].started_position = position
        for invariant in self.invariants:
            invariant.on_service_started(self.nodes[member_id], position, digest)

    def on_snapshot(self, member_id: int, position: int, digest: str) -> None:
        self.note(f"node{member_id} snapshot position={position} digest={digest}")
        for invariant in self.invariants:
            invariant.on_snapshot(self.nodes[member_id], position, digest)

    def on_other_started(self, member_id: int, service_id: int, position: int, digest: str) -> None:
        for invariant in self.invariants:
            if isinstance(invariant, ServicesAgree):
                invariant.on_other_started(member_id, service_id, position, digest)

    def on_other_executed(
        self, member_id: int, service_id: int, position: int, digest: str, version: int, wrong: str
    ) -> None:
        if wrong:
            self.fail(f"node{member_id} service {service_id} at position {position}: {wrong}")
        for invariant in self.invariants:
            if isinstance(invariant, ServicesAgree):
                invariant.on_other_executed(member_id, service_id, position, digest, version)

    def on_client_message(self, service_id: int, position: int) -> None:
        for invariant in self.invariants:
            if isinstance(invariant, ServicesAgree):
                invariant.on_client_message(service_id, position)

    def on_request(self, session_id: int, request: Request, position: int) -> None:
        if self.options.services > 1:
            self.on_client_message(0, position)
        known = self.clients_history.executed.setdefault((request.client, request.number), position)
        if known != position and self.options.requests:
            self.fail(f"request {request.number} of client {request.client} was executed at {known} and at {position}")

    # -- faults ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for node in self.nodes:
            node.boot()
        for client in self.clients:
            client.boot()
        for application in self.applications:
            application.boot()
        for consumer in self.consumers:
            consumer.boot()
        for reader in self.readers:
            reader.boot()

    @property
    def participants(self) -> list[Participant]:
        """All members, clients, instances of applications, members of consumers, and readers of feeds."""
        return [*self.nodes, *self.clients, *self.applications, *self.consumers, *self.readers]

    def quorum(self) -> int:
        """Of the voters of the beginning: damage and changes of the members do not come together."""
        return self.nodes[0].first_configuration.quorum_threshold

    def members(self) -> list[SimulatedNode]:
        """The members by the configuration of the serving leader, or by that of the beginning."""
        leader = self.leader()
        configuration = self.nodes[0].first_configuration if leader is None else leader.module.core.configuration
        return [self.nodes[member_id] for member_id in configuration.member_ids]

    def _expected_nodes(self) -> list[SimulatedNode]:
        """The members, and while nobody leads whoever the log of a member that runs names."""
        members = self.members()
        if self.leader() is not None:
            return members
        named = {each for node in members if node.is_alive for each in node.module.core.configuration.member_ids}
        return [node for node in self.nodes if node in members or node.member_id in named]

    def leader(self) -> SimulatedNode | None:
        """The serving leader of the highest term."""
        serving = [node for node in self.nodes if node.serves]
        return max(serving, key=lambda node: node.leads_term, default=None)

    @property
    def takes_requests(self) -> bool:
        """Whether clients may ask: see `Options.kept_bytes_max`."""
        if not self._takes_requests:
            leader = self.leader()
            levels = None if leader is None else leader.module.rules.levels
            is_there = levels is not None and levels.takes_request_ids
            self._takes_requests = is_there and self.committed_position >= leader.append_position  # type: ignore[union-attr]
        return self._takes_requests

    @property
    def committed_position(self) -> int:
        """The highest commit position that any member has reached."""
        return self._committed.position

    def pending_work(self) -> str:
        """Timers not fired and messages of the service not come back, in any member's state; '' when there are none."""
        left = []
        for node in self.members():
            state = node.service.state if node.service is not None else None
            if state is not None and (state.timers or state.messages_sent != state.messages_received):
                left.append(f"{node.name} {len(state.timers)} {state.messages_sent - state.messages_received}")
            for service_id, other in node.others.items():
                its = other.state
                if its.timers or its.messages_sent != its.messages_received:
                    left.append(
                        f"{node.name} service {service_id} {its.timers} {its.messages_sent - its.messages_received}"
                    )
        return ", ".join(left)

    def timers_ahead_ns(self) -> int:
        """How far off the last timer is, in the cluster's time."""
        timers = [node.service.state.timers for node in self.members() if node.service is not None]
        timers += [other.state.timers for node in self.members() for other in node.others.values()]
        deadline = max((one for deadlines in timers for one in deadlines.values()), default=0)
        cluster_time = max(
            (one.module.member.cluster_time for one in self.members() if one.module.member.is_leader), default=0
        )
        return max(0, time_ns(deadline) - time_ns(cluster_time))

    def describe(self) -> str:
        """One line: where every member and client stands."""
        parts = []
        for node in self.nodes:
            if node.node is None:
                parts.append(f"{node.name} dead")
            else:
                parts.append(f"{node.name} {node.module.core.describe()} executed={node.executed_position}")
        for client in self.clients:
            state = client.session.state.name if client.session is not None else "none"
            parts.append(f"{client.name} {state} asked={client.number} answered={client.answered_last}")
        for one in self.applications:
            app = one.application
            parts.append(f"{one.name} {'dead' if app is None else f'{app.position} waiting={app.outputs_waiting}'}")
        return "; ".join(parts)

    def forget(self) -> None:
        """Lets go of everything, so that the memory of this run can go."""
        for node in self.nodes:
            node.release()
        for client in self.clients:
            client.release()
        for application in self.applications:
            application.release()
        for consumer in self.consumers:
            consumer.release()
        self.actors.clear()
        self.invariants.clear()
        self._on_step.clear()
        self._on_moved.clear()
        self._on_executed.clear()
        self._on_answer.clear()
        self.forget_events()

    def is_steady(self) -> bool:
        """All members live, one serves, all others follow it and have executed the same; none is suspended."""
        members = self.members()
        if any(not node.is_alive or node.is_leaving or node.is_suspended for node in members):
            return False
        serving = [node for node in self.nodes if node.serves]
        if len(serving) != 1:
            return False
        leader = serving[0]
        return all(
            node.module.core.state is ElectionState.CLOSED
            and node.module.core.leadership_term_id == leader.leads_term
            and node.executed_position == leader.executed_position
            and node.has_level_services
            for node in members
        )
