"""Virtual time, a lossy network and a fault schedule for members that are consensus cores with an honest shell."""

import heapq
from collections.abc import Callable
from hashlib import blake2b
from random import Random

from ordo.consensus.state.configuration import VOTERS_MAX, Configuration, changed
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import Message
from ordo.consensus.state.settings import ConsensusSettings
from ordo.consensus.state.states import ElectionState, Role
from ordo.runtime.native.time_units import MILLISECOND_NS
from tests.consensus.disk import Entry
from tests.consensus.faults import Faults
from tests.consensus.node import SimulatedNode

SECOND_NS = 1_000 * MILLISECOND_NS
LAG_PROBABILITY = 0.6


class World:
    """All members, all messages in flight, and what has been committed by anybody."""

    def __init__(self, seed: int, member_count: int | None = None, faults: Faults | None = None) -> None:
        self.rng = Random(seed)
        self.now_ns = 0
        count = member_count or self.rng.choice((1, 2, 3, 3, 3, 4, 5, 5, 6, 7))
        self.faults = faults or Faults.draw(self.rng)
        spares = self.faults.spares
        self.faults_on = True
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.sequence = 0
        self.blocked: set[tuple[int, int]] = set()
        self.arrival_ns: dict[tuple[int, int], int] = {}
        self.committed: list[Entry] = []
        self.committed_in: list[int] = []
        self.leaders: dict[int, int] = {}
        self.identities = 0
        self.transfers = 0
        self.losses = 0
        self.changes = 0
        self.doubts = 0
        self.transitions: set[tuple[ElectionState, ElectionState]] = set()
        self.trace = blake2b(digest_size=16)
        self.nodes = [SimulatedNode(self, self.config(member_id, count)) for member_id in range(count + spares)]

    def config(self, member_id: int, count: int) -> ConsensusSettings:
        """The first `count` begin as voters; a spare knows them all, and is known to none."""
        ids, canvass_ns = tuple(range(count)), self.faults.startup_canvass_ns
        if member_id < count:
            return ConsensusSettings(member_id, ids, startup_canvass_timeout_ns=canvass_ns)
        return ConsensusSettings(member_id, (*ids, member_id), (member_id,), startup_canvass_timeout_ns=canvass_ns)

    # -- time -----------------------------------------------------------------------------------------------------

    def at(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.queue, (self.now_ns + delay_ns, self.sequence, action))

    def run_until(self, end_ns: int, is_done: Callable[[], bool] | None = None) -> bool:
        """Run events up to a time; true as soon as `is_done`."""
        while self.queue and self.queue[0][0] <= end_ns:
            self.now_ns, _, action = heapq.heappop(self.queue)
            action()
            if is_done is not None and is_done():
                return True
        self.now_ns = max(self.now_ns, end_ns)
        return False

    # -- network --------------------------------------------------------------------------------------------------

    def send(self, source: int, target: int, deliver: Callable[["SimulatedNode"], None]) -> None:
        """Carry one datagram, or lose, delay, reorder or double it."""
        if (source, target) in self.blocked:
            return
        faults, rng = self.faults, self.rng
        if self.faults_on and rng.random() < faults.loss:
            return
        copies = 2 if self.faults_on and rng.random() < faults.duplication else 1
        for _ in range(copies):
            arrival_ns = self.now_ns + rng.randint(100_000, faults.delay_ns_max if self.faults_on else MILLISECOND_NS)
            if not (faults.reorder and self.faults_on):
                arrival_ns = max(arrival_ns, self.arrival_ns.get((source, target), 0))
                self.arrival_ns[source, target] = arrival_ns
            self.at(arrival_ns - self.now_ns, lambda: self.nodes[target].receive(deliver))

    def send_message(self, source: int, target: int, message: Message) -> None:
        self.send(source, target, lambda node: node.on_message(message))

    # -- faults ---------------------------------------------------------------------------------------------------

    def schedule_fault(self) -> None:
        delay_ns = int(self.rng.expovariate(1.0) * self.faults.mean_fault_interval_ns)
        self.at(delay_ns, self.inject_fault)

    def inject_fault(self) -> None:
        if not self.faults_on:
            return
        leaders = [node for node in self.nodes if node.is_serving]
        node = self.rng.choice(leaders if leaders and self.rng.random() < 0.4 else self.nodes)
        kind = self.rng.choice(
            (
                *("crash", "restart", "restart", "pause", "partition", "one way", "heal", "heal", "close", "transfer"),
                *(["damage", "damage", "wipe"] * self.faults.losses),
                *(["change"] * self.faults.changes),
                *(["doubt"] * self.faults.doubts),
                *("lag", "lag"),
            )
        )
        if kind == "crash":
            node.crash()
        elif kind == "restart":
            node.restart()
        elif kind == "bounce":
            node.crash()
            node.restart()
        elif kind == "pause":
            node.pause(self.rng.choice((20, 600, 3000)) * MILLISECOND_NS)
        elif kind == "close":
            node.close()
        elif kind in ("damage", "wipe"):
            self.lose_disk(node, kind)
        elif kind == "change":
            self.changes += sum([leader.change(self.draw_change(leader)) for leader in leaders])
        elif kind == "doubt":
            self.doubt_state(node)
        elif kind == "lag":
            if node.core is not None:
                node.core.lag(self.rng.random() < LAG_PROBABILITY)
        elif kind == "transfer":
            target = self.rng.choice([None, *range(len(self.nodes))])
            for leader in leaders:
                self.transfers += leader.transfer(target)
        else:
            self.change_links(kind)
        self.schedule_fault()

    def draw_change(self, leader: SimulatedNode) -> Configuration:
        """Of one member, a spare perhaps: to what it is not."""
        assert leader.core is not None
        current, member_id = leader.core.configuration, self.rng.randrange(len(self.nodes))
        if member_id not in current.member_ids:
            return changed(current, learners=[member_id])
        if member_id in current.learner_ids and len(current.voter_ids) == VOTERS_MAX:
            return changed(current, gone=[member_id])
        if member_id in current.voter_ids and len(current.voter_ids) == 1:
            return current
        if member_id in current.voter_ids:
            return changed(current, **{self.rng.choice(("learners", "gone")): [member_id]})
        return changed(current, **{self.rng.choice(("voters", "voters", "gone")): [member_id]})

    def doubt_state(self, node: SimulatedNode) -> None:
        """A follower's service turns out to differ from the others': of so few that the rest are a quorum."""
        if node.core is None or node.core.is_leading or node.core.state is not ElectionState.CLOSED:
            return
        cores = [each.core for each in self.nodes if each.core is not None]
        in_doubt = {core.member_id for core in cores if Distrust.STATE in core.distrust} | {node.member_id}
        configuration = node.core.configuration
        if len(set(configuration.voter_ids) - in_doubt) >= configuration.quorum_threshold:
            node.core.doubt_state()
            self.doubts += 1

    def lose_disk(self, node: SimulatedNode, kind: str) -> None:
        """A member loses a part of its log, or everything: of so few that a quorum stays whole."""
        lost = [each for each in self.nodes if each.disk.distrust]
        is_tolerable = len(self.nodes) - len(lost) > len(self.nodes) // 2 + 1
        forgetful = any(Distrust.VOTE in each.disk.distrust for each in lost)
        if node in lost or not is_tolerable or (kind == "wipe" and forgetful):
            return
        node.crash()
        if kind == "wipe":
            node.disk.wipe()
        else:
            node.disk.damage(self.rng)
        self.losses += 1
        node.restart()

    def change_links(self, kind: str) -> None:
        ids = range(len(self.nodes))
        if kind == "partition":
            side = {member_id for member_id in ids if self.rng.random() < 0.5}
            self.blocked = {(a, b) for a in ids for b in ids if (a in side) != (b in side)}
        elif kind == "one way":
            self.blocked.add((self.rng.choice(ids), self.rng.choice(ids)))
        else:
            self.blocked = set()

    def stop_faults(self) -> None:
        """Ends all faults: from now on everything works."""
        self.faults_on = False
        self.blocked = set()
        for node in self.nodes:
            node.restart()

    # -- the whole ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for node in self.nodes:
            node.restart()
        self.at(self.faults.client_interval_ns, self.offer)

    def offer(self) -> None:
        """A client writes to whoever believes to lead."""
        for node in self.nodes:
            node.offer()
        jitter = self.rng.randint(1, self.faults.client_interval_ns)
        self.at(jitter, self.offer)

    def new_identity(self) -> int:
        self.identities += 1
        return self.identities

    def serving_leader(self) -> SimulatedNode | None:
        """The leader with all others of its configuration following it in its term, if it is so."""
        leaders = [node for node in self.nodes if node.core is not None and node.core.role is Role.LEADER]
        if len(leaders) != 1:
            return None
        cores = [node.core for node in self.members_of(leaders[0])]
        if any(core is None or core.state is not ElectionState.CLOSED for core in cores):
            return None
        terms = {core.leadership_term_id for core in cores if core is not None}
        return leaders[0] if len(terms) == 1 else None

    def members_of(self, leader: SimulatedNode) -> list[SimulatedNode]:
        """Voters and learners as the leader has it."""
        assert leader.core is not None
        return [self.nodes[member_id] for member_id in leader.core.configuration.member_ids]

    # -- safety ---------------------------------------------------------------------------------------------------

    def note_elected(self, leadership_term_id: int, node: SimulatedNode) -> None:
        """Election safety (Raft figure 3) and leader completeness (§5.4)."""
        assert self.leaders.setdefault(leadership_term_id, node.member_id) == node.member_id, (
            f"two leaders in term {leadership_term_id}"
        )
        earlier = [
            entry for entry, term in zip(self.committed, self.committed_in, strict=True) if term < leadership_term_id
        ]
        assert node.disk.entries[: len(earlier)] == earlier, (
            f"leader of term {leadership_term_id} lacks committed entries"
        )

    def note_committed(self, node: SimulatedNode, position: int) -> None:
        """State-machine safety (§5.4.3): everybody executes the same entries at the same positions."""
        self.check_doubt(node)
        while node.applied_position < position:
            entry = node.disk.entries[node.applied_count]
            assert entry.end <= position, f"commit position {position} inside {entry}"
            if node.applied_count == len(self.committed):
                assert node.core is not None
                self.committed.append(entry)
                self.committed_in.append(node.core.leadership_term_id)
            assert self.committed[node.applied_count] == entry, f"member {node.member_id} executes another {entry}"
            node.applied_count += 1
            node.applied_position = entry.end

    def check_doubt(self, node: SimulatedNode) -> None:
        """A member whose service's state differs from the others' serves nobody."""
        core = node.core
        if core is not None and Distrust.STATE in core.distrust and len(core.configuration.voter_ids) > 1:
            assert not core.is_serving, f"member {node.member_id} serves with a state in doubt"

    def check_log_matching(self) -> None:
        """Log matching (§5.3): logs that hold an entry of one term at one position are equal up to there."""
        for a in self.nodes:
            for b in self.nodes[a.member_id + 1 :]:
                common = min(len(a.disk.entries), len(b.disk.entries))
                while common and a.disk.entries[common - 1][:3] != b.disk.entries[common - 1][:3]:
                    common -= 1
                assert a.disk.entries[:common] == b.disk.entries[:common], f"{a.member_id} and {b.member_id} differ"
