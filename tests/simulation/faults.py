"""What goes wrong while faults are on: each kind of fault comes at random times, and is over after a while."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from cluster.counter_types import ControlToggle
from cluster.node import FAREWELL_NS
from consensus.states import ElectionState
from runtime.errors import OrdoError
from tests.simulation.invariants import Checksums
from tests.simulation.nodes import SimulatedNode
from tests.simulation.world import World

MS = 1_000_000
S = 1_000_000_000
HEADER_LENGTH = 32


class FaultSchedule:
    """Faults for one world, drawn from its seed. `stop` ends them all and gives back what was taken."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_on = True
        self.random: Random = world.random.stream("faults")
        options = world.options
        self._kinds: list[tuple[int, Callable[[], None]]] = [
            (options.kill_mean_ns, self.kill),
            (options.power_loss_mean_ns, self.lose_power),
            (options.close_mean_ns, self.close),
            (options.pause_mean_ns, self.pause),
            (options.partition_mean_ns, self.partition),
            (options.slow_link_mean_ns, self.slow_link),
            (options.clock_mean_ns, self.step_clock),
            (options.disk_mean_ns, self.break_disk),
            (options.rot_mean_ns, self.rot),
            (options.client_mean_ns, self.trouble_client),
            (options.snapshot_mean_ns, self.snapshot),
        ]
        for node in world.nodes:
            rate = options.clock_rate_ppm_max
            node.clock_rate_ppm = self.random.randint(-rate, rate)

    def start(self) -> None:
        for mean_ns, action in self._kinds:
            if mean_ns:
                self._again(mean_ns, action)

    def _again(self, mean_ns: int, action: Callable[[], None]) -> None:
        def strike() -> None:
            if self.is_on:
                self.world.trace.count_fault(action.__name__)
                action()
                self._again(mean_ns, action)

        self.world.at(int(self.random.expovariate(1.0) * mean_ns), strike)

    def _later(self, action: Callable[[], None]) -> None:
        """When the outage is over; `stop` does the same for all."""
        delay_ns = int(self.random.expovariate(1.0) * self.world.options.outage_mean_ns)
        self.world.at(delay_ns, lambda: action() if self.is_on else None)

    def _victim(self) -> SimulatedNode | None:
        """A live member, often the leader."""
        alive = [node for node in self.world.nodes if node.is_alive]
        leader = self.world.leader()
        if leader is not None and self.random.random() < 0.5:
            return leader
        return self.random.choice(alive) if alive else None

    def stop(self) -> None:
        """From now on everything works."""
        self.is_on = False
        world = self.world
        world.note("faults stop")
        faults = world.network.faults
        faults.loss = faults.duplication = faults.corruption = faults.reordering = 0.0
        faults.delay_max_ns = min(faults.delay_max_ns, MS)
        world.network.heal()
        for node in world.nodes:
            node.disk.heal()
            node.disk.sync_delay_ns_max = min(node.disk.sync_delay_ns_max, 2 * MS)
            node.resume(world.now_ns)
            node.step_clock(-node.clock_offset_ns)
            self._restart(node)
        for client in world.clients:
            client.resume(world.now_ns)
            if client.session is None and client.host is None:
                client.boot()

    # -- members ---------------------------------------------------------------------------------------------------

    def _restart(self, node: SimulatedNode) -> None:
        if node.is_leaving:
            self.world.at(FAREWELL_NS, lambda: self._restart(node))
        if node.is_alive:
            return
        node.disk.heal()
        node.has_disk_faults = False
        if node.is_rotten and not self._replace_disk(node):
            return
        node.boot()
        if not node.is_alive:
            self.world.at(200 * MS, lambda: self._restart(node))

    def _replace_disk(self, node: SimulatedNode) -> bool:
        """An empty disk is safe only while all others live, follow one leader, and have all that is committed."""
        others = [other for other in self.world.nodes if other is not node]
        leader = self.world.leader()
        is_safe = leader is not None and all(
            other.is_alive
            and other.module.core.state is ElectionState.CLOSED
            and other.module.core.leadership_term_id == leader.leads_term
            and other.append_position >= self.world.committed_position
            for other in others
        )
        if not is_safe:
            self.world.at(100 * MS, lambda: self._restart(node))
            return False
        node.wipe()
        self.world.trace.count_fault("disk replaced")
        for invariant in self.world.invariants:
            invariant.on_wiped(node)
        return True

    def kill(self) -> None:
        node = self._victim()
        if node is not None:
            node.kill()
            self._later(lambda: self._restart(node))

    def lose_power(self) -> None:
        """Of one member, of all at once, or of one in the middle of its next metadata transactions."""
        node = self._victim()
        if node is None:
            return
        draw = self.random.random()
        if draw < 0.3:
            node.disk.transactions_until_loss = self.random.randrange(4)
            node.disk.loss_follows_commit = self.random.random() < 0.5
            self.world.note(f"{node.name} will lose power in a transaction")
        elif draw < 0.45:
            for each in self.world.nodes:
                if each.is_alive:
                    each.lose_power()
        else:
            node.lose_power()
        for each in self.world.nodes:
            self._later(lambda each=each: self._restart(each))  # type: ignore[misc]

    def close(self) -> None:
        node = self._victim()
        if node is not None:
            node.close()
            self._later(lambda: self._restart(node))

    def pause(self) -> None:
        node = self._victim()
        if node is not None:
            duration_ns = self.random.choice((20 * MS, 300 * MS, 2 * S))
            node.pause(self.world.now_ns + duration_ns)
            self.world.note(f"{node.name} paused for {duration_ns // MS} ms")

    def step_clock(self) -> None:
        node = self.random.choice(self.world.nodes)
        delta_ns = self.random.choice((-3600 * S, -700 * MS, 30 * MS, 900 * MS, 3 * S))
        node.step_clock(delta_ns)
        self.world.note(f"{node.name} clock steps by {delta_ns // MS} ms")

    # -- the network -----------------------------------------------------------------------------------------------

    def _addresses(self) -> list[str]:
        nodes = [node.address for node in self.world.nodes]
        return nodes + [client.address for client in self.world.clients]

    def partition(self) -> None:
        network, addresses = self.world.network, self._addresses()
        members = [node.address for node in self.world.nodes]
        draw = self.random.random()
        if draw < 0.4:
            side = {address for address in addresses if self.random.random() < 0.5}
            network.partition(sorted(side), [address for address in addresses if address not in side])
            self.world.note(f"partition {sorted(side)}")
        elif draw < 0.6:
            lonely = self.random.choice(members)
            network.partition([lonely], [address for address in addresses if address != lonely])
            self.world.note(f"partition {lonely}")
        elif draw < 0.75:
            self._cut_off(self.world.leader() or self.random.choice(self.world.nodes))
        else:
            source, destination = self.random.choice(addresses), self.random.choice(members)
            network.block(source, destination)
            self.world.note(f"one way blocked {source} -> {destination}")
        self._later(self._heal)

    def _cut_off(self, node: SimulatedNode) -> None:
        """No other member hears it, nor does it hear any; clients do."""
        for other in self.world.nodes:
            if other is not node:
                self.world.network.block(node.address, other.address)
                self.world.network.block(other.address, node.address)
        self.world.note(f"{node.name} cut off from the other members")

    def _heal(self) -> None:
        self.world.network.heal()
        self.world.note("network healed")

    def slow_link(self) -> None:
        source, destination = self.random.choice(self._addresses()), self.random.choice(self._addresses())
        delay_ns = self.random.choice((5, 50, 300)) * MS
        self.world.network.slow_down(source, destination, delay_ns)
        self.world.note(f"slow link {source} -> {destination}: {delay_ns // MS} ms")
        self._later(self._heal)

    # -- disks -----------------------------------------------------------------------------------------------------

    def break_disk(self) -> None:
        node = self._victim()
        if node is None:
            return
        node.has_disk_faults = True
        kind = self.random.choice(("writes", "syncs", "reads", "space", "slow"))
        disk, count = node.disk, self.random.randrange(1, 30)
        if kind == "writes":
            disk.writes_until_failure = count
        elif kind == "syncs":
            disk.syncs_until_failure = count
        elif kind == "reads":
            disk.reads_until_failure = count
        elif kind == "space":
            disk.free_bytes = self.random.choice((0, 10_000, 140 * 1024 * 1024))
        else:
            disk.sync_delay_ns_max = 600 * MS
        self.world.note(f"{node.name} disk: {kind} {count}")
        self._later(lambda: self._mend_disk(node))

    def _mend_disk(self, node: SimulatedNode) -> None:
        node.disk.heal()
        node.disk.sync_delay_ns_max = self.world.options.sync_max_ns
        self.world.note(f"{node.name} disk mended")
        self._restart(node)

    def rot(self) -> None:
        """A bit of the closed part of one member's log changes; of one member at a time."""
        world = self.world
        node = self.random.choice(world.nodes)
        if not node.is_alive or any(other.is_rotten for other in world.nodes) or node.log_recording_id < 0:
            return
        end = min(node.append_position, world.committed_position) // world.options.segment_length
        if end < 1:
            return
        base = self.random.randrange(end) * world.options.segment_length
        path = f"{node.archive_folder}/{node.log_recording_id}-{base}.rec"
        file = node.disk.files.get(path)
        if file is None:
            return
        offset = self.random.randrange(file.length_bytes - HEADER_LENGTH)
        if file.is_zero(offset):
            return
        file.flip_bit(offset, self.random.randrange(8))
        node.is_rotten = True
        world.trace.count_fault("bit rotten")
        for invariant in world.invariants:
            if isinstance(invariant, Checksums):
                invariant.damage.setdefault(node.member_id, []).append((node.boots, base + offset))
        world.note(f"{node.name} bit rot at {base + offset}")

    # -- the rest --------------------------------------------------------------------------------------------------

    def trouble_client(self) -> None:
        client = self.random.choice(self.world.clients)
        if client.host is None:
            return
        if self.random.random() < 0.5:
            client.crash()
            self._later(lambda: client.boot() if client.host is None else None)
        else:
            duration_ns = self.random.choice((100 * MS, 1 * S, 4 * S))
            client.pause(self.world.now_ns + duration_ns)
            self.world.note(f"{client.name} paused for {duration_ns // MS} ms")

    def snapshot(self) -> None:
        """Asks the leader for a snapshot, as `ordo cluster snapshot` does."""
        leader = self.world.leader()
        if leader is None:
            return
        try:
            asked = leader.module.counters.control_toggle.compare_and_set(ControlToggle.NEUTRAL, ControlToggle.SNAPSHOT)
        except OrdoError:
            return
        if asked:
            self.world.note(f"{leader.name} asked for a snapshot")
