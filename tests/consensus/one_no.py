"""Measures, in virtual time, an election with one member that votes no: `python -m tests.consensus.one_no`.

A leader of five goes on writing while no other member hears it, so that its log becomes newer than theirs. Then it
hears, and is heard by, one other member only, and refuses it its vote each time that it stands. The rest of the members
either hear each other (`one link`), or that same member alone (`bridge`), which then is the only one that can win.
"""

from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS
from tests.consensus.failover import CALM
from tests.consensus.node import SimulatedNode
from tests.consensus.world import World

RUNS = 60
MEMBERS = 5
LIMIT_NS = 60 * SECOND_NS
UNHEARD_NS = 300 * MILLISECOND_NS


def measure(seed: int, topology: str) -> tuple[float, int]:
    """(seconds until another member serves, ballots until then); the seconds are those of the limit if none does."""
    world = World(seed, MEMBERS, CALM)
    world.faults_on = False
    world.start()
    assert world.run_until(10 * SECOND_NS, lambda: world.serving_leader() is not None)
    world.run_until(world.now_ns + SECOND_NS + 7 * seed * MILLISECOND_NS)
    refuser = world.serving_leader()
    assert refuser is not None and refuser.core is not None
    term_id = refuser.core.leadership_term_id
    others = [node for node in world.nodes if node is not refuser]
    friend = world.rng.choice(others)
    world.blocked = {(refuser.member_id, other.member_id) for other in others}
    world.run_until(world.now_ns + UNHEARD_NS)
    world.blocked = {
        (a.member_id, b.member_id)
        for a in world.nodes
        for b in world.nodes
        if not _are_linked(a, b, friend, refuser, topology)
    }
    cut_ns = world.now_ns
    world.run_until(cut_ns + LIMIT_NS, lambda: any(node.is_serving for node in others))
    terms = [node.core.candidate_term_id for node in world.nodes if node.core is not None]
    return (world.now_ns - cut_ns) / SECOND_NS, max(terms) - term_id


def _are_linked(
    a: SimulatedNode, b: SimulatedNode, friend: SimulatedNode, refuser: SimulatedNode, topology: str
) -> bool:
    return friend in (a, b) or (topology == "one link" and refuser not in (a, b))


def main() -> None:
    print("| links | median | longest | ballots, median | most |")
    print("|---|---|---|---|---|")
    for topology in ("one link", "bridge"):
        found = [measure(seed, topology) for seed in range(RUNS)]
        seconds, ballots = sorted(one for one, _ in found), sorted(one for _, one in found)
        middle = RUNS // 2
        print(f"| {topology} | {seconds[middle]:.1f} s | {seconds[-1]:.1f} s | {ballots[middle]} | {ballots[-1]} |")


if __name__ == "__main__":
    main()
