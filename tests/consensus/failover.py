"""Measures, in virtual time, how long the cluster is without a serving leader: `python -m tests.consensus.failover`."""

from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS
from tests.consensus.faults import Faults
from tests.consensus.node import SimulatedNode
from tests.consensus.world import World

RUNS = 60


def hand_over(leader: SimulatedNode) -> None:
    """Hands leadership over to the member with most of the log."""
    assert leader.transfer(None)


CALM = Faults(
    loss=0.0,
    duplication=0.0,
    delay_ns_max=MILLISECOND_NS,
    reorder=False,
    crash_in_commands=0.0,
    mean_fault_interval_ns=SECOND_NS,
    sync_ns_max=2 * MILLISECOND_NS,
    client_interval_ns=20 * MILLISECOND_NS,
    native=True,
    early_scan=True,
    leave_discards=False,
    startup_canvass_ns=SECOND_NS,
)


MANNERS = {"killed": SimulatedNode.crash, "closed properly": SimulatedNode.close, "handed over": hand_over}


def measure_ms(seed: int, member_count: int, manner: str) -> float:
    """Time from the loss of the leader, or its order to hand over, until another member serves."""
    world = World(seed, member_count, CALM)
    world.faults_on = False
    world.start()
    assert world.run_until(10 * SECOND_NS, lambda: world.serving_leader() is not None)
    world.run_until(world.now_ns + SECOND_NS + 7 * seed * MILLISECOND_NS)
    lost = world.serving_leader()
    assert lost is not None
    lost_at_ns = world.now_ns
    MANNERS[manner](lost)
    others = [node for node in world.nodes if node is not lost]
    assert world.run_until(lost_at_ns + 10 * SECOND_NS, lambda: any(node.is_serving for node in others))
    return (world.now_ns - lost_at_ns) / MILLISECOND_NS


def main() -> None:
    print("| members | leader | median | 90th percentile | longest |")
    print("|---|---|---|---|---|")
    for member_count in (3, 5):
        for manner in MANNERS:
            times = sorted(measure_ms(seed, member_count, manner) for seed in range(RUNS))
            figures = " | ".join(f"{times[int(RUNS * share)]:.0f} ms" for share in (0.5, 0.9))
            print(f"| {member_count} | {manner} | {figures} | {times[-1]:.0f} ms |")


if __name__ == "__main__":
    main()
