"""Log goes only below what a quorum has a snapshot of, and only snapshots of a quorum are fetched.

docs/ARCHITECTURE.md, A log that forgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.invariants.leader_completeness import LeaderCompleteness
    from tests.simulation.nodes import SimulatedNode
    from tests.simulation.world import World


class QuorumKeepsWhatIsNeeded(Invariant):
    """Knows by itself who ever had which snapshot: a disk that loses one later does not make a purge wrong."""

    name = "a quorum keeps what is needed"

    def __init__(self, world: World, completeness: LeaderCompleteness) -> None:
        """`completeness`: reads the logs, and is to have read what is about to go."""
        super().__init__(world)
        self._completeness = completeness
        self._held: dict[int, dict[int, bytes]] = {}
        """By member: position and digest of every snapshot it ever put on its shelf."""

    def on_booted(self, node: SimulatedNode) -> None:
        upkeep, held = node.module.upkeep, self._held.setdefault(node.member_id, {})
        held.update(upkeep.shelf.digests())
        add, purge_log, begin = upkeep.shelf.add, upkeep.retention.purge_log, upkeep.fetch.begin

        def hear_add(entry: Any, digest: bytes) -> None:
            held[entry.log_position] = digest
            add(entry, digest)

        def hear_purge(recording_id: int, bound: int) -> int:
            assert node.node is not None
            if node.node.archive.segment_base(recording_id, max(bound, 0)) > 0:
                self._completeness.on_checkpoint()
            removed = int(purge_log(recording_id, bound))
            if removed:
                self._check_purge(node, recording_id)
            return removed

        def hear_begin(wanted: Any, source_id: int, now_ns: int) -> bool:
            is_begun = bool(begin(wanted, source_id, now_ns))
            if is_begun:
                self._check_fetch(node, *wanted)
            return is_begun

        upkeep.shelf.add, upkeep.retention.purge_log = hear_add, hear_purge
        upkeep.fetch.begin = hear_begin

    def _check_purge(self, node: SimulatedNode, recording_id: int) -> None:
        assert node.node is not None
        start = node.node.archive.descriptor(recording_id).start_position
        newest = sorted((max(self._held.get(one, {}), default=-1) for one in self._voters(node)), reverse=True)
        quorum_position = newest[self._threshold(node) - 1]
        self.world.note(f"{node.name} log begins at {start}")
        self.world.trace.count_fault("log purged")
        if start > quorum_position:
            self.fail(f"{node.name} deleted log up to {start}, a quorum has snapshots up to {quorum_position}")

    def _check_fetch(self, node: SimulatedNode, position: int, digest: bytes) -> None:
        """The member itself may have had it once, and be one of that quorum."""
        holders = [one for one in self._held if self._held[one].get(position) == digest]
        voters = set(self._voters(node))
        missing = self._threshold(node) - len(voters.intersection(holders))
        self.world.note(f"{node.name} fetches the snapshot at {position} of members {holders}")
        if missing > 0:
            self.fail(f"{node.name} fetches the snapshot at {position}, which only members {holders} ever had")

    def _voters(self, node: SimulatedNode) -> tuple[int, ...]:
        """As the leader sees it, if there is one: a member that was away may know an older configuration."""
        leader = self.world.leader() or node
        return tuple(leader.module.core.configuration.voter_ids)

    def _threshold(self, node: SimulatedNode) -> int:
        leader = self.world.leader() or node
        return int(leader.module.core.configuration.quorum_threshold)
