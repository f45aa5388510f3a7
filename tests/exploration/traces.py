"""Traces of the simulation of cores in virtual time (tests.consensus.world), to be held against the specification."""

from __future__ import annotations

from ordo.consensus.state import commands
from ordo.consensus.state.messages import Message
from ordo.runtime.native.time_units import MILLISECOND_NS
from tests.consensus.faults import Faults
from tests.consensus.node import SimulatedNode
from tests.consensus.world import World
from tests.exploration.raft import Node, Raft
from tests.exploration.refinement import Seen, Step, changes_in, follow, runs, votes_in


class TracedNode(SimulatedNode):
    """Notes what can be seen of it after each of its steps."""

    steps: list[Step]
    sent: list[Message]

    def execute(self) -> None:
        """Carry out commands, and note what came of it."""
        super().execute()
        if self.core is not None:
            self.note(False)

    def crash(self) -> None:
        """End, and note what is left of the log; a member that is down is seen as one that has just started."""
        was_up = self.core is not None
        super().crash()
        if was_up:
            self.note(True)

    def do_Send(self, command: commands.Send) -> None:
        """Send a message, and note it."""
        self.sent.append(command.message)
        super().do_Send(command)

    def note(self, has_crashed: bool) -> None:
        """Note a step."""
        core, disk = self.core, self.disk
        seen = Seen(
            disk.candidate_term_id,
            runs(disk.entries),
            disk.durable_position,
            0 if core is None else core.commit_position,
            core is not None and core.is_leading,
            changes_in(disk.entries),
        )
        asked, given = votes_in(self.sent)
        self.sent.clear()
        self.steps.append(Step(self.member_id, seen, has_crashed, asked, given))


def trace_of(seed: int, duration_ns: int, changes: int = 0) -> list[Step]:
    """Return the steps of a simulated cluster of three whose members crash, pause, hand over and are cut off.

    Disks lose nothing that is durable: what a member that lost its log does is not in the specification.
    """
    world = World(seed, 3)
    faults: Faults = world.faults
    faults.losses, faults.crash_in_commands, faults.changes = 0, 0.0, changes
    steps: list[Step] = []
    nodes = [TracedNode(world, world.config(member_id, 3)) for member_id in range(3)]
    for node in nodes:
        node.steps, node.sent = steps, []
    world.nodes[:] = nodes
    world.start()
    world.schedule_fault()
    world.run_until(duration_ns)
    return steps


def validate(steps: list[Step], members: int = 3) -> Raft:
    """Follow a trace from the beginning. Raises Refused at the first step that is none of the specification's."""
    raft = Raft(frozenset(range(members)), {one: Node() for one in range(members)})
    for step in steps:
        raft = follow(raft, step)
    return raft


SECOND_NS = 1_000 * MILLISECOND_NS
