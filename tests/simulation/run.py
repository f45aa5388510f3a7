"""One simulated run: faults with safety checked, then quiet, in which the cluster must come to life again."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from ordo.applications.application import AppMode
from ordo.cluster.wire.counters.counter_types import ControlToggle
from ordo.cluster.wire.levels import REQUEST_ID_LEVEL, STATE_HASH_LEVEL
from ordo.runtime.random import RandomSource
from tests.linearizability.checker import Verdict, check
from tests.linearizability.models import Register
from tests.simulation import rot
from tests.simulation.app_service import check_outputs
from tests.simulation.clients import SimulatedClient
from tests.simulation.consumers import find_unfinished
from tests.simulation.faults import FaultSchedule
from tests.simulation.feeds import find_unread
from tests.simulation.group_queries import LastGroupQuestion
from tests.simulation.history import Violation
from tests.simulation.invariants import ClocksAreTheLeaders
from tests.simulation.led_twice import lead_twice
from tests.simulation.lost_for_good import lose_for_good
from tests.simulation.lost_majority import lose_most
from tests.simulation.minority import FaultyMinority
from tests.simulation.options import Options, draw
from tests.simulation.own_code import spare_code, stop_changing, with_code
from tests.simulation.queries import LastQuestions
from tests.simulation.world import World

MS = 1_000_000
S = 1_000_000_000
RECOVERY_NS_MAX = 40 * S
SNAPSHOT_AGAIN_NS = 3 * S
HASH_EVERY_BYTES_SELF = 64
"""With so much log between them, hashes of states follow on one another without any client."""
PROBE_RETRY_NS = 2 * S
LINEARIZABILITY_LOOKS_MAX = 1000
"""Where the order of the log does not explain a history, the search for another order may take for ever: after so many
looks at the clock, about four million steps, it stays undecided."""


@dataclass
class Outcome:
    """What a run came to. Times in ns of virtual time, in s of real time and of processor time."""

    seed: int
    options: Options
    virtual_ns: int
    real_s: float
    cpu_s: float
    digest: str
    executed: int
    answered: int
    terms: int
    violation: str | None
    is_decided: bool
    """Whether it is known of the clients' histories that they are linearizable, or that they are not."""
    events: list[str]
    faults: dict[str, int]


def run_seed(seed: int, options: Options | None = None) -> Outcome:
    """Never raises for what the cluster does wrong: the outcome says it."""
    options = options or draw(RandomSource(seed).stream("options"))
    gc.collect()  # what the run before left behind
    gc.freeze()
    was_collecting = gc.isenabled()
    gc.disable()
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    world = World(seed, options)
    violation: str | None = None
    is_decided = True
    try:
        is_decided = drive(world)
    except Violation as error:
        violation = str(error)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        violation = f"{type(error).__name__}: {error} (in {last.name}: {last.line})"
        world.note(violation)
        if world.violation is not None:
            violation = str(world.violation)
    finally:
        real_s = time.perf_counter() - started_s
        cpu_s = time.process_time() - started_cpu_s
        outcome = _outcome(world, real_s, cpu_s, violation, is_decided)
        world.forget()
        if was_collecting:
            gc.enable()
    return outcome


def drive(world: World) -> bool:
    """All phases; False where the histories were too hard to check. Raises Violation, or whatever else comes out of
    the cluster."""
    faults = FaultSchedule(world)
    world.start()
    faults.start()
    world.run(world.options.duration_ns)
    faults.stop()
    if world.options.faulty_minority:
        live_without(FaultyMinority(world), world)
    recover(world)
    if world.options.scrub_ns:
        rot_and_mend(world)
        rot_and_replace(world)
    world.check_all()
    if world.violation is not None:
        raise world.violation
    check_answers(world)
    is_decided = check_histories(world)
    if world.options.loses_most:
        lose_most(world)
    elif world.options.leads_twice:
        lead_twice(world)
    elif world.options.loses_for_good:
        lose_for_good(world)
    return is_decided


def check_answers(world: World) -> None:
    """What was executed for a client with a journal was answered."""
    for client in world.clients:
        unanswered = client.requesting.unanswered() if client.requesting is not None else []
        if unanswered:
            raise Violation(f"{client.name}: requests {unanswered} were executed and never answered")
        if client.tracking is not None:
            client.tracking.check()
    if world.violation is not None:
        raise world.violation


class Probes:
    """One request of each client after the faults, asked again while it is not answered: it may go with its session.
    `takes_refusals`: where members are missing, and with them their word that they know requests with ids, a client may
    be told that its request is not executed for want of the log's level."""

    def __init__(self, world: World, *, takes_refusals: bool = False) -> None:
        self._world = world
        self._takes_refusals = takes_refusals
        self._numbers: dict[int, int] = {}
        self._retry_ns: dict[int, int] = {}

    def are_answered(self) -> bool:
        for client in self._world.clients:
            number = self._numbers.get(client.client_id)
            if number is not None and (client.answered_last >= number or self._is_refused(client, number)):
                continue
            if self._world.now_ns >= self._retry_ns.get(client.client_id, 0) and client.probe():
                self._numbers.setdefault(client.client_id, client.number)
                self._retry_ns[client.client_id] = self._world.now_ns + PROBE_RETRY_NS
            return False
        return True

    def _is_refused(self, client: SimulatedClient, number: int) -> bool:
        leader = self._world.leader()
        if not self._takes_refusals or client.requesting is None or leader is None:
            return False
        return client.requesting.wants_level(number) and not leader.module.rules.levels.takes_request_ids


def live_without(minority: FaultyMinority, world: World) -> None:
    """Every client must be answered in bounded virtual time by the members that are well; a request with an id may be
    refused where the log's level cannot rise without the others."""
    for client in world.clients:
        client.is_working = False
    minority.begin()
    spare_code(world, minority.nodes)
    if not world.run(RECOVERY_NS_MAX, Probes(world, takes_refusals=True).are_answered):
        raise Violation(f"not live {RECOVERY_NS_MAX // S} s after the faults of the majority: {world.describe()}")
    minority.end()


def recover(world: World) -> None:
    """Every client must be answered, and every member must have executed everything, in bounded virtual time."""
    for client in world.clients:
        client.is_working = False
    probes = Probes(world)
    stop_changing(world)
    finish_upgrade(world)
    if not world.run(RECOVERY_NS_MAX, with_code(world, lambda: probes.are_answered() and world.is_steady())):
        raise Violation(f"not live {RECOVERY_NS_MAX // S} s after the faults: {world.describe()}")
    if not world.run(RECOVERY_NS_MAX, lambda: all(client.has_all_answers for client in world.clients)):
        raise Violation(f"requests are not answered {RECOVERY_NS_MAX // S} s after the faults: {world.describe()}")
    questions = LastQuestions(world.clients[0])
    if not world.run(RECOVERY_NS_MAX, questions.are_answered):
        raise Violation(f"queries are not answered {RECOVERY_NS_MAX // S} s after the faults: {world.describe()}")
    if not world.run(RECOVERY_NS_MAX + world.timers_ahead_ns(), lambda: not world.pending_work() and world.is_steady()):
        raise Violation(f"timers or messages are left over: {world.pending_work()}: {world.describe()}")
    finish_clocks(world)
    finish_applications(world)
    finish_consumers(world)
    finish_readers(world)
    notice_differences(world)
    execute_everywhere(world)


def finish_clocks(world: World) -> None:
    """The log says how well the clock of the leader is known, where it may have that."""
    if not world.options.clock_report_ns:
        return
    [reports] = [check for check in world.invariants if isinstance(check, ClocksAreTheLeaders)]
    if not world.run(RECOVERY_NS_MAX, lambda: reports.is_of_this_term):
        raise Violation(
            f"no report of the leader's clock {RECOVERY_NS_MAX // S} s after the faults: {world.describe()}"
        )


def finish_upgrade(world: World) -> None:
    """Clients that ask with ids are refused while a member runs an old release: such members are started again."""
    for node in world.nodes if world.options.requests == "ids" else ():
        if node.is_alive and node.level < REQUEST_ID_LEVEL:
            world.note(f"{node.name} is given the release that the others have")
            node.kill()
            node.boot()


def execute_everywhere(world: World) -> None:
    """What any member has executed, all have in bounded virtual time: consumers and applications go on writing."""
    end_position = world.executed.end_position

    def executed() -> list[int]:
        return [node.executed_position for node in world.members()]

    if not world.run(RECOVERY_NS_MAX, lambda: min(executed()) >= end_position):
        raise Violation(
            f"executed up to {end_position}, the members end at {executed()} {RECOVERY_NS_MAX // S} s after the faults:"
            f" {world.describe()}"
        )


def finish_applications(world: World) -> None:
    """Each request of a client has its output, once, and every instance knows it."""
    if not world.applications:
        return

    def are_done() -> bool:
        return all(one.is_idle for one in world.applications) and not wrong() and not untold() and world.is_steady()

    def wrong() -> str:
        texts = [record.text for record in world.executed.records]
        is_elected = world.options.application_mode == AppMode.ACTIVE_PASSIVE
        return check_outputs(texts) or (world.writers.find_difference(texts) if is_elected else "")

    def untold() -> str:
        members = [node.told for node in world.members()]
        return next(filter(None, (one.find_untold(members) for one in world.applications)), "")

    if not world.run(RECOVERY_NS_MAX, are_done):
        why = wrong() or untold() or "instances wait for outputs or timers"
        raise Violation(f"{why}, {RECOVERY_NS_MAX // S} s after the faults: {world.describe()}")
    last_question = LastGroupQuestion(world.clients[0].group_asking)
    if not world.run(RECOVERY_NS_MAX, last_question.is_answered):
        raise Violation(
            f"the application answers no query {RECOVERY_NS_MAX // S} s after the faults: {world.describe()}"
        )
    for client in world.clients:
        client.group_asking.check()
    for one in world.applications:
        for _ in one.application.differences.told if one.application is not None else ():
            world.trace.count_fault("application difference")
    for _ in world.writers.generations:
        world.trace.count_fault("application elected")


def finish_consumers(world: World) -> None:
    """Each request that was executed has its effect, once where the sink stores positions."""

    def are_done() -> bool:
        return not find_unfinished(world.consumers)

    if world.consumers and not world.run(RECOVERY_NS_MAX // 2, are_done):
        for consumer in world.consumers:
            consumer.forget_the_dead()
    if world.consumers and not world.run(RECOVERY_NS_MAX, are_done):
        why = find_unfinished(world.consumers)
        raise Violation(f"{why}, {RECOVERY_NS_MAX // S} s after the faults: {world.describe()}")


def finish_readers(world: World) -> None:
    """Every reader of a feed has everything that was published, or what is kept of it where members are gone for good:
    a reader waits for a member that may have more, until it is told that there is none."""

    def have_all() -> bool:
        return not find_unread(world.readers)

    if world.readers and not world.run(RECOVERY_NS_MAX // 2, have_all):
        for reader in world.readers:
            reader.forget_the_dead()
    if world.readers and not world.run(RECOVERY_NS_MAX, have_all):
        why = find_unread(world.readers)
        raise Violation(f"{why}, {RECOVERY_NS_MAX // S} s after the faults: {world.describe()}")


def rot_and_mend(world: World) -> None:
    """Bits of the log of a member that runs rot, and must be mended in place from the others, which have them."""
    random = world.random.stream("rot")
    members = world.members()
    if len(members) < 2:
        return
    damaged = [node for node in [random.choice(members)] if rot.rot_log(world, node, random)]

    def are_mended() -> bool:
        return all(rot.is_whole(node) for node in damaged) and world.is_steady()

    # What the others let go of before they were asked goes here, too, with the next snapshot.
    if not world.run(RECOVERY_NS_MAX // 2, are_mended) and not world.run(
        RECOVERY_NS_MAX, with_snapshots(world, are_mended)
    ):
        places = [node.name for node in damaged if not rot.is_whole(node)]
        raise Violation(f"logs of {places} are not mended {RECOVERY_NS_MAX // S} s after they rotted")


def rot_and_replace(world: World) -> None:
    """Bits of a snapshot rot that others hold, too, and it must be replaced while its member runs."""
    random = world.random.stream("rot")
    node = random.choice(world.members())
    position = rot.rot_snapshot(world, node, random)
    if position is None:
        return

    def is_replaced() -> bool:
        return rot.is_snapshot_whole(node, position) and world.is_steady()

    if world.run(RECOVERY_NS_MAX, is_replaced):
        return
    # What all others have deleted meanwhile is deleted here, too, after the next snapshot.
    is_held = any(position in one.module.held.shelf.digests() for one in world.members() if one is not node)
    if is_held or not world.run(RECOVERY_NS_MAX, with_snapshots(world, is_replaced)):
        raise Violation(f"snapshot {position} of {node.name} is not mended {RECOVERY_NS_MAX // S} s after it rotted")


def with_snapshots(world: World, is_done: Callable[[], bool]) -> Callable[[], bool]:
    """`is_done`, while the leader is asked for a snapshot again and again."""
    due_ns = world.now_ns

    def probe() -> bool:
        nonlocal due_ns
        leader = world.leader()
        if leader is not None and world.now_ns >= due_ns:
            due_ns = world.now_ns + SNAPSHOT_AGAIN_NS
            leader.ask(ControlToggle.SNAPSHOT)
        return is_done()

    return probe


def notice_differences(world: World) -> None:
    """After a snapshot, or the next comparison of hashes, no member may have a state of its own."""
    if not world.options.difference_mean_ns:
        return

    def are_alike() -> bool:
        services = [node.service for node in world.nodes if node.service is not None]
        return world.is_steady() and not any(service.state.differs for service in services)

    # One of an old release may not have been started again.
    takes_hashes = all(node.level >= STATE_HASH_LEVEL for node in world.nodes)
    compares_hashes = takes_hashes and 0 < world.options.state_hash_every_bytes <= HASH_EVERY_BYTES_SELF
    if not world.run(RECOVERY_NS_MAX, are_alike if compares_hashes else with_snapshots(world, are_alike)):
        raise Violation(f"a member's state differs, and it goes on {RECOVERY_NS_MAX // S} s later: {world.describe()}")


def check_histories(world: World) -> bool:
    """Raises Violation where what clients saw of the registers is not linearizable; False where that stays open."""
    history = world.clients_history
    operations = history.operations()
    result = check(operations, Register(), LINEARIZABILITY_LOOKS_MAX, count(1).__next__)
    if result.verdict is Verdict.VIOLATED:
        raise Violation(f"linearizability: {result.describe()}")
    return result.verdict is Verdict.LINEARIZABLE


def _outcome(world: World, real_s: float, cpu_s: float, violation: str | None, is_decided: bool) -> Outcome:
    return Outcome(
        seed=world.seed,
        options=world.options,
        virtual_ns=world.now_ns,
        real_s=real_s,
        cpu_s=cpu_s,
        digest=f"{world.trace.digest:08x}{world.network.digest:08x}",
        executed=len(world.executed.records),
        answered=len(world.clients_history.acknowledged),
        terms=sum(record.text.startswith("term ") for record in world.executed.records),
        violation=violation,
        is_decided=is_decided,
        events=list(world.trace.events),
        faults={**world.trace.tally, **_network_faults(world)},
    )


def _network_faults(world: World) -> dict[str, int]:
    statistics = world.network.statistics
    names = ("lost", "blocked", "duplicated", "corrupted", "truncated", "reordered", "overflowed")
    return {f"datagrams {name}": getattr(statistics, name) for name in names}
