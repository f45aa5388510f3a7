"""What goes wrong while faults are on: each kind of fault comes at random times, and is over after a while."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace

from ordo.cluster.node.node import FAREWELL_NS
from ordo.cluster.wire.app_version import ALL_SERVICES
from ordo.cluster.wire.counters.counter_types import ControlToggle, transfer_value
from ordo.cluster.wire.ordo_codecs import MembershipChange
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import OrdoError
from tests.simulation import damage
from tests.simulation.consumers import SimulatedConsumer
from tests.simulation.feeds import SimulatedReader
from tests.simulation.links import LinkFaults
from tests.simulation.nodes import SimulatedNode
from tests.simulation.own_code import VERSIONS
from tests.simulation.renewals import renew_by_chance
from tests.simulation.volumes import VolumeFaults
from tests.simulation.world import World

MS = 1_000_000
S = 1_000_000_000
RESUME_INTERVAL_NS = 500 * MS
RENEWAL_NS_MAX = 3 * S
SLOWNESS = 100
"""So many times as long as usual a slow disk takes for all that it makes durable."""


class FaultSchedule:
    """Faults for one world, drawn from its seed. `stop` ends them all and gives back what was taken."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_on = True
        self.random: Random = world.random.stream("faults")
        options = world.options
        volumes = self._volumes = VolumeFaults(world, self.random, self._later, self._restart, lambda: self.is_on)
        links = LinkFaults(world, lambda: self.is_on, self._restart)
        self._kinds: list[tuple[int, Callable[[], None]]] = [
            (options.kill_mean_ns, self.kill),
            (options.power_loss_mean_ns, self.lose_power),
            (options.close_mean_ns, self.close),
            (options.transfer_mean_ns, self.transfer),
            (options.pause_mean_ns, self.pause),
            (options.partition_mean_ns, self.partition),
            (options.slow_link_mean_ns, self.slow_link),
            (options.clock_mean_ns, self.step_clock),
            (options.disk_mean_ns, self.break_disk),
            (options.loss_mean_ns, self.lose),
            (options.client_mean_ns, self.trouble_client),
            (options.snapshot_mean_ns, self.snapshot),
            (options.membership_mean_ns, self.change_members),
            (options.orders_mean_ns, self.order),
            (options.own_error_mean_ns, self.fail_alone),
            (options.difference_mean_ns, self.make_different),
            (options.upgrade_mean_ns, self.upgrade),
            (options.tangle_mean_ns, links.tangle),
            (options.strand_mean_ns, links.strand),
            (options.echo_mean_ns, links.echo),
            (options.fall_mean_ns, links.fall),
            (options.application_mean_ns, self.trouble_application),
            (options.consumer_mean_ns, self.trouble_consumer),
            (options.fill_mean_ns, self.fill_disk),
            (options.slow_disk_mean_ns, self.slow_disk),
            (options.reader_mean_ns, self.trouble_reader),
            (options.volume_mean_ns, volumes.trouble),
        ]
        for node in world.nodes:
            rate = options.clock_rate_ppm_max
            node.clock_rate_ppm = self.random.randint(-rate, rate)

    def start(self) -> None:
        for mean_ns, action in self._kinds:
            if mean_ns:
                self._again(mean_ns, action)

    def _count(self, kind: str) -> None:
        self.world.trace.count_fault(kind)

    def _again(self, mean_ns: int, action: Callable[[], None]) -> None:
        def strike() -> None:
            if self.is_on:
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
        """Ends all faults: from now on everything works."""
        self.is_on = False
        world = self.world
        world.note("faults stop")
        faults = world.network.faults
        faults.loss = faults.duplication = faults.corruption = faults.truncation = faults.reordering = 0.0
        faults.delay_max_ns = min(faults.delay_max_ns, MS)
        world.network.heal()
        world.copy_failure_chance = 0.0
        for node in world.nodes:
            self._volumes.give_back(node)
            node.disk.heal()
            node.disk.sync_delay_ns_max = min(node.disk.sync_delay_ns_max, 2 * MS)
            node.resume(world.now_ns)
            if node.service is not None:
                node.service.fails_next = False
            node.step_clock(-node.clock_offset_ns)
            self._restart(node)
        for client in world.clients:
            client.resume(world.now_ns)
            if client.session is None and client.host is None:
                client.boot()
        for application in world.applications:
            application.resume(world.now_ns)
            if not application.is_alive:
                application.boot()
        for consumer in world.consumers:
            consumer.resume(world.now_ns)
            if not consumer.is_alive:
                consumer.boot()
        for reader in world.readers:
            reader.resume(world.now_ns)
            if not reader.is_alive:
                reader.boot()
        if world.options.orders_mean_ns:
            self._resume_always()

    # -- members ---------------------------------------------------------------------------------------------------

    def _restart(self, node: SimulatedNode) -> None:
        if node.is_leaving:
            self.world.at(FAREWELL_NS, lambda: self._restart(node))
        if node.is_alive:
            return
        node.disk.heal()
        node.has_disk_faults = False
        node.boot()
        if not node.is_alive:
            self.world.at(200 * MS, lambda: self._restart(node))

    def kill(self) -> None:
        node = self._victim()
        if node is not None:
            node.kill()
            self._count("kill")
            self._later(lambda: self._restart(node))

    def lose_power(self) -> None:
        """Power is lost by one member, by all at once, or by one in the middle of its next metadata transactions."""
        node = self._victim()
        if node is None:
            return
        draw = self.random.random()
        if draw < 0.3:
            node.disk.transactions_until_loss = self.random.randrange(4)
            node.disk.loss_follows_commit = self.random.random() < 0.5
            self._count("power lost in a transaction")
            self.world.note(f"{node.name} will lose power in a transaction")
        elif draw < 0.45:
            for each in self.world.nodes:
                if each.is_alive:
                    each.lose_power()
            self._count("power lost by all")
        else:
            node.lose_power()
            self._count("power lost by one")
        for each in self.world.nodes:
            self._later(lambda each=each: self._restart(each))  # type: ignore[misc]

    def close(self) -> None:
        node = self._victim()
        if node is not None:
            node.close()
            self._count("close")
            self._later(lambda: self._restart(node))

    def transfer(self) -> None:
        """The leader hands over: asked to as `ordo cluster transfer [--to ID]` does, or because it is told to stop."""
        leader = self.world.leader()
        if leader is None:
            return
        if self.random.random() < 0.4:
            leader.module.end()
            self.world.note(f"{leader.name} told to stop, and to hand over before")
            self._count("stop with a transfer")
            self._await_end(leader, leader.boots)
            return
        target = self.random.choice((None, self.random.choice(self.world.nodes).member_id))
        if leader.ask(transfer_value(target)):
            self._count("transfer asked for")
            self.world.note(f"{leader.name} asked to hand over to {'anybody' if target is None else f'node{target}'}")

    def _await_end(self, node: SimulatedNode, life: int) -> None:
        if not node.is_alive or node.boots != life:
            return
        if node.module.member.has_ended:
            node.close()
            self.world.at(self.world.options.outage_mean_ns, lambda: self._restart(node))
        else:
            self.world.at(MS, lambda: self._await_end(node, life))

    def _renew_log(self, until_ns: int) -> None:
        """Once all members have ended by an order, if nothing came between; then the world starts them again."""
        if self.world.now_ns < until_ns and any(node.is_alive for node in self.world.nodes):
            self.world.at(10 * MS, lambda: self._renew_log(until_ns))
            return
        if not self.world.consumers and renew_by_chance(self.world, self.random):  # what these lack would be purged
            self._count("log renewed")
        self.world.is_at_rest = False

    def fail_alone(self) -> None:
        """The service of one member, always the same one, raises at its next record: its node is to end alone."""
        node = self.world.nodes[self.world.seed % self.world.options.nodes]
        if node.service is None or node.is_leaving:
            return
        node.has_own_error = node.service.fails_next = True
        self._count("own error")
        self.world.note(f"the service of {node.name} will raise alone")
        self._await_death(node, node.boots)

    def make_different(self) -> None:
        """The state of one member, always the same one, is no longer that of the others."""
        node = self.world.nodes[self.world.seed % self.world.options.nodes]
        if node.service is not None and not node.is_leaving and not node.service.state.differs:
            node.service.state.differs = True
            self._count("state differs")
            self.world.note(f"the state of {node.name} differs")

    def _await_death(self, node: SimulatedNode, life: int) -> None:
        if node.boots != life:
            return
        if node.is_alive:
            self.world.at(10 * MS, lambda: self._await_death(node, life))
        elif self.is_on:
            self._later(lambda: self._restart(node))
        else:
            self._restart(node)

    def pause(self) -> None:
        node = self._victim()
        if node is not None:
            duration_ns = self.random.choice((20 * MS, 300 * MS, 2 * S, 5 * S))
            node.pause(self.world.now_ns + duration_ns)
            self._count("pause beyond every timeout" if duration_ns > 2 * S else "pause")
            self.world.note(f"{node.name} paused for {duration_ns // MS} ms")

    def step_clock(self) -> None:
        node = self.random.choice(self.world.nodes)
        delta_ns = self.random.choice((-3600 * S, -700 * MS, 30 * MS, 900 * MS, 3 * S, 3600 * S))
        self._count(f"clock steps {'far ' if abs(delta_ns) > 3 * S else ''}{'back' if delta_ns < 0 else 'forward'}")
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
        self._count("one way blocked" if draw >= 0.75 else "partition")
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
        self._count("slow link")
        self.world.note(f"slow link {source} -> {destination}: {delay_ns // MS} ms")
        self._later(self._heal)

    # -- disks -----------------------------------------------------------------------------------------------------

    def break_disk(self) -> None:
        """Calls of one kind fail from the Nth on: those of the running member, or of its next start."""
        node = self._victim()
        if node is None:
            return
        node.has_disk_faults = True
        kind = self.random.choice(("writes", "syncs", "reads", "metadata", "space", "slow"))
        disk, count = node.disk, self.random.randrange(1, 30)
        self._count(f"disk {kind}")
        is_start = kind in ("reads", "metadata") and self.random.random() < 0.5
        if is_start:
            node.kill()
        if kind == "writes":
            disk.writes_until_failure = count
        elif kind == "syncs":
            disk.syncs_until_failure = count
        elif kind == "reads":
            disk.reads_until_failure = count
        elif kind == "metadata":
            disk.metadata_until_failure = count if is_start else min(count, 5)
        elif kind == "space":
            disk.free_bytes = self.random.choice((0, 10_000, 140 * 1024 * 1024))
            node.was_filled = True
        else:
            disk.sync_delay_ns_max = 600 * MS
        self.world.note(f"{node.name} disk: {kind} {count}")
        if is_start:
            node.boot()
        self._later(lambda: self._mend_disk(node))

    def _mend_disk(self, node: SimulatedNode) -> None:
        node.disk.heal()
        node.disk.sync_delay_ns_max = self.world.options.sync_max_ns
        self.world.note(f"{node.name} disk mended")
        self._restart(node)

    def slow_disk(self) -> None:
        """Each sync takes 100 times as long; each commit of metadata holds up the member for as long as a sync."""
        node = self._victim()
        if node is None:
            return
        node.disk.slowness = SLOWNESS
        self._count("disk slows by 100")
        self.world.note(f"{node.name} disk: slower by {SLOWNESS}")
        self._later(lambda: self._hasten_disk(node))

    def _hasten_disk(self, node: SimulatedNode) -> None:
        """Whatever else befell the disk meanwhile goes on."""
        node.disk.slowness = 1
        self.world.note(f"{node.name} disk: as fast as before")

    def fill_disk(self) -> None:
        """Something else takes the room on the disk of a member, or of all, for a while."""
        victims = self.world.nodes if self.random.random() < 0.3 else [self.random.choice(self.world.nodes)]
        left_bytes = self.random.choice((0, 10_000, 90_000, 250_000, 390_000))
        for node in victims:
            node.was_filled = True
            taken_bytes = max(0, node.disk.free_bytes - left_bytes)
            node.disk.free_bytes -= taken_bytes
            self._count("disk filled")
            self.world.note(f"{node.name} disk: {left_bytes} bytes are left")
            self._later(lambda node=node, taken_bytes=taken_bytes: self._give_room(node, taken_bytes))  # type: ignore[misc]

    def _give_room(self, node: SimulatedNode, freed_bytes: int) -> None:
        node.disk.free_bytes += freed_bytes
        self.world.note(f"{node.name} disk: {node.disk.free_bytes} bytes are free again")

    def lose(self) -> None:
        """A member dies, and something it had promised to keep is gone when it comes back: of so few at a time that a
        quorum has everything."""
        node, nodes = self.random.choice(self.world.nodes), self.world.nodes
        if node.is_leaving or node.boots == 0:
            return
        distrust = {each.member_id: damage.stored_distrust(each) for each in nodes}
        others = [each for each in nodes if each is not node]
        is_quorum_left = sum(not (distrust[each.member_id] or each.has_lost) for each in others) >= self.world.quorum()
        if not is_quorum_left or distrust[node.member_id] or node.has_lost:
            return
        if node.is_alive:
            node.kill() if self.random.random() < 0.5 else node.close()
        if node.is_alive:
            return
        may_forget_vote = not any(Distrust.VOTE in each for each in distrust.values()) and not any(
            each.has_lost for each in others
        )
        loss = damage.lose(node, self.random, may_forget_vote)
        if loss is not None:
            node.has_lost = True
            self.world.trace.count_fault(loss.kind)
            self.world.note(loss.text)
            for invariant in self.world.invariants if loss.forgets_vote else ():
                invariant.on_wiped(node)
        self._later(lambda: self._restart(node))

    # -- the rest --------------------------------------------------------------------------------------------------

    def trouble_client(self) -> None:
        client = self.random.choice(self.world.clients)
        if client.host is None:
            return
        if self.random.random() < 0.5:
            client.crash()
            self._count("client crash")
            self._later(lambda: client.boot() if client.host is None else None)
        else:
            duration_ns = self.random.choice((100 * MS, 1 * S, 4 * S))
            client.pause(self.world.now_ns + duration_ns)
            self._count("client pause")
            self.world.note(f"{client.name} paused for {duration_ns // MS} ms")

    def trouble_application(self) -> None:
        """An instance is stopped, or killed; then its machine may lose power, and its disk."""
        one = self.random.choice(self.world.applications)
        if not one.is_alive:
            return
        draw = self.random.random()
        if draw < 0.4:
            one.pause(self.world.now_ns + self.random.choice((100 * MS, 1 * S, 4 * S)))
            self._count("application pause")
            return
        one.kill(wipes=draw > 0.9, loses_power=draw > 0.7)
        self._count("application kill")
        self._later(lambda: one.boot() if not one.is_alive else None)

    def trouble_consumer(self) -> None:
        """A member of a durable consumer is stopped, or killed."""
        self._trouble(self.random.choice(self.world.consumers), "consumer")

    def trouble_reader(self) -> None:
        """A reader of a feed is stopped, or killed."""
        self._trouble(self.random.choice(self.world.readers), "reader")

    def _trouble(self, one: SimulatedConsumer | SimulatedReader, kind: str) -> None:
        if not one.is_alive:
            return
        if self.random.random() < 0.4:
            one.pause(self.world.now_ns + self.random.choice((100 * MS, 1 * S, 4 * S)))
            self._count(f"{kind} pause")
            return
        one.kill()
        self._count(f"{kind} kill")
        self._later(lambda: one.boot() if not one.is_alive else None)

    def snapshot(self) -> None:
        """Asks the leader for a snapshot, as `ordo cluster snapshot` does."""
        leader = self.world.leader()
        if leader is not None and leader.ask(ControlToggle.SNAPSHOT):
            self._count("snapshot")
            self.world.note(f"{leader.name} asked for a snapshot")

    def order(self) -> None:
        """What an operator asks of the whole cluster, as ClusterTool does: to stand still for a while, or to end."""
        leader = self.world.leader()
        if leader is None:
            return
        order = self.random.choice(
            (ControlToggle.SUSPEND, ControlToggle.SUSPEND, ControlToggle.SHUTDOWN, ControlToggle.ABORT)
        )
        if not leader.ask(order):
            return
        self._count(order.name.lower())
        self.world.note(f"{leader.name} was asked: {order.name}")
        if order is ControlToggle.SUSPEND:
            self._later(self._resume)
            return
        if self.world.options.renews:
            self.world.is_at_rest = True
            self._renew_log(self.world.now_ns + RENEWAL_NS_MAX)
            return
        for node in self.world.nodes:
            if node.is_alive:
                self._await_end(node, node.boots)

    def _resume(self) -> None:
        leader = self.world.leader()
        if leader is not None and leader.is_suspended and leader.ask_to_resume():
            self._count("resume")
            self.world.note(f"{leader.name} was asked: RESUME")

    def _resume_always(self) -> None:
        self._resume()
        self.world.at(RESUME_INTERVAL_NS, self._resume_always)

    def upgrade(self) -> None:
        """Asks the leader for any version of all services, or of one, as `ordo cluster upgrade` does."""
        leader, version, service_id = self.world.leader(), self.random.choice(VERSIONS), ALL_SERVICES
        if self.world.options.upgrades_one:
            service_id = self.random.choice((ALL_SERVICES, *range(self.world.options.services)))
        if leader is not None:
            request = SimpleNamespace(correlation_id=0, app_version=version, service_id=service_id)
            leader.module.rules.versions.on_upgrade_request(request, leader.clock.now())
            self._count("upgrade asked for" if service_id == ALL_SERVICES else "upgrade of one service asked for")
            self.world.note(f"{leader.name} was asked: version {version} of service {service_id}")

    def change_members(self) -> None:
        """Asks the leader for a change of any member, a spare perhaps, as `ordo cluster add-learner` and its kin do."""
        leader = self.world.leader()
        if leader is None:
            return
        node = self.random.choice(self.world.nodes)
        current = leader.module.core.configuration
        if node.member_id not in current.member_ids:
            change = MembershipChange.ADD_LEARNER
        elif node.member_id in current.learner_ids:
            change = self.random.choice((MembershipChange.PROMOTE, MembershipChange.PROMOTE, MembershipChange.REMOVE))
        else:
            change = self.random.choice((MembershipChange.DEMOTE, MembershipChange.REMOVE))
        member = node.config.own_member.encode()
        request = SimpleNamespace(correlation_id=0, member_id=node.member_id, change=change, member=member)
        try:
            refused = leader.module.membership.on_request(request, leader.clock.now())
        except OrdoError:
            return
        if refused is None:
            if change is MembershipChange.ADD_LEARNER:
                node.install_release()
            self.world.trace.count_fault(f"member {change.name.lower()}")
            self.world.note(f"{leader.name} was asked: {change.name} {node.name}")
