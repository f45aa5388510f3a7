"""Partial partitions: who hears whom is drawn link by link, and some of it follows the cluster's leaders about."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.nodes import SimulatedNode
from tests.simulation.world import World

MS = 1_000_000
S = 1_000_000_000
WATCH_INTERVAL_NS = 5 * MS
SUCCESSOR_NS_MAX = 4 * S
AHEAD_NS_MAX = 50 * MS
LOOK_INTERVAL_NS = MS // 10


class LinkFaults:
    """Ways between members that are blocked or slow; those of `tangle` heal one by one."""

    def __init__(self, world: World, is_on: Callable[[], bool], restart: Callable[[SimulatedNode], None]) -> None:
        self._world = world
        self._is_on = is_on
        self._restart = restart
        self._random: Random = world.random.stream("links")

    def _at(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Unless the faults are over by then."""
        self._world.at(delay_ns, lambda: action() if self._is_on() else None)

    def _outage_ns(self) -> int:
        return int(self._random.expovariate(1.0) * self._world.options.outage_mean_ns)

    def _tell(self, kind: str, text: str) -> None:
        self._world.trace.count_fault(kind)
        self._world.note(f"{kind}: {text}")

    # -- any links -------------------------------------------------------------------------------------------------

    def tangle(self) -> None:
        """Two sides that one or two members in the middle hear both, or any one-way links; each heals by itself."""
        nodes = self._world.nodes
        if len(nodes) < 2:
            return
        if self._random.random() < 0.4:
            middle = self._random.sample(nodes, self._random.choice((1, min(2, len(nodes)))))
            side = {node.member_id: self._random.random() < 0.5 for node in nodes}
            cut = [
                (a, b)
                for a in nodes
                for b in nodes
                if side[a.member_id] != side[b.member_id] and a not in middle and b not in middle
            ]
            self._tell("bridge", f"only {' and '.join(node.name for node in middle)} heard by both sides")
        else:
            chance = self._random.choice((0.2, 0.4, 0.6))
            cut = [(a, b) for a in nodes for b in nodes if a is not b and self._random.random() < chance]
            self._tell("one-way links", ", ".join(f"{a.member_id}>{b.member_id}" for a, b in cut))
        for a, b in cut:
            self._world.network.block(a.address, b.address)
            self._at(self._outage_ns(), lambda a=a, b=b: self._world.network.unblock(a.address, b.address))  # type: ignore[misc]

    # -- around leaders --------------------------------------------------------------------------------------------

    def strand(self) -> None:
        """A leader that only clients hear goes on appending, so that it has the longer log of the older term. It is
        heard again when its successor, which has committed little as yet, is gone."""
        leader = self._world.leader()
        if leader is None or len(self._world.nodes) < 3:
            return
        self._tell("stranded leader", f"{leader.name} in term {leader.leads_term}")
        self._set_apart(leader)
        self._await_successor(leader, leader.leads_term, self._world.now_ns + SUCCESSOR_NS_MAX)

    def _set_apart(self, node: SimulatedNode) -> None:
        for other in self._world.nodes:
            if other is not node:
                self._world.network.block(node.address, other.address)
                self._world.network.block(other.address, node.address)

    def _rejoin(self, node: SimulatedNode) -> None:
        for other in self._world.nodes:
            self._world.network.unblock(node.address, other.address)
            self._world.network.unblock(other.address, node.address)

    def _await_successor(self, stranded: SimulatedNode, term_id: int, until_ns: int) -> None:
        successor = self._world.leader()
        if self._world.now_ns >= until_ns:
            self._rejoin(stranded)
        elif successor is None or successor is stranded or successor.leads_term <= term_id:
            self._at(WATCH_INTERVAL_NS, lambda: self._await_successor(stranded, term_id, until_ns))
        else:
            self._at(self._random.randrange(AHEAD_NS_MAX), lambda: self._replace(successor, stranded))

    def _replace(self, successor: SimulatedNode, stranded: SimulatedNode) -> None:
        if self._random.random() < 0.5 and successor.is_alive:
            successor.kill()
            self._at(self._outage_ns() + S, lambda: self._restart(successor))
        else:
            self._set_apart(successor)
            self._at(self._outage_ns() + S, lambda: self._rejoin(successor))
        self._rejoin(stranded)

    def fall(self) -> None:
        """A leader is killed as soon as something is committed that one follower has not heard, so that its log is a
        message or two shorter than it must be to be elected."""
        leader, options = self._world.leader(), self._world.options
        others = [node for node in self._world.nodes if node is not leader and node.is_alive]
        if leader is None or len(others) < 2:
            return
        late = self._random.choice(others)
        self._world.network.block(leader.address, late.address)
        until_ns = self._world.now_ns + options.heartbeat_timeout_ns // 2
        self._await_commit(leader, late, (leader.boots, late.boots), until_ns)

    def _await_commit(self, leader: SimulatedNode, late: SimulatedNode, lives: tuple[int, int], until_ns: int) -> None:
        is_over = self._world.now_ns >= until_ns or (leader.boots, late.boots) != lives
        if is_over or not (leader.is_alive and late.is_alive) or leader.leads_term < 0:
            self._world.network.unblock(leader.address, late.address)
        elif leader.commit_position > late.append_position:
            behind_bytes = leader.commit_position - late.append_position
            self._tell("leader falls", f"{leader.name}, and {late.name} lacks {behind_bytes} bytes that are committed")
            leader.kill()
            self._world.network.unblock(leader.address, late.address)
            self._at(self._outage_ns(), lambda: self._restart(leader))
        else:
            self._at(LOOK_INTERVAL_NS, lambda: self._await_commit(leader, late, lives, until_ns))

    def echo(self) -> None:
        """A leader hears one follower late, for longer than it takes to elect another leader; then nobody hears it, and
        it hears nothing but what that follower has said long ago."""
        leader, options = self._world.leader(), self._world.options
        others = [node for node in self._world.nodes if node is not leader]
        if leader is None or not others:
            return
        late = self._random.choice(others)
        delay_ns = 2 * options.heartbeat_timeout_ns + 2 * options.election_timeout_ns
        self._tell("echo", f"{leader.name} hears {late.name} {delay_ns // MS} ms late")
        self._world.network.slow_down(late.address, leader.address, delay_ns)
        self._at(delay_ns + 100 * MS, lambda: self._deafen(leader, late))
        self._at(2 * delay_ns + options.heartbeat_timeout_ns, lambda: self._rejoin(leader))

    def _deafen(self, leader: SimulatedNode, late: SimulatedNode) -> None:
        """But for what comes late."""
        for other in self._world.nodes:
            if other is not leader:
                self._world.network.block(leader.address, other.address)
                if other is not late:
                    self._world.network.block(other.address, leader.address)
