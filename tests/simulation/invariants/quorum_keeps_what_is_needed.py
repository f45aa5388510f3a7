"""A member deletes log only below a snapshot that it holds itself and that a quorum agreed on; only such are fetched.
Nor does it delete what another member told it lately that it lacks.

docs/ARCHITECTURE.md, A log that forgets.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ordo.cluster.wire import ordo_codecs
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.invariants.leader_completeness import LeaderCompleteness
    from tests.simulation.nodes import SimulatedNode


CLOCK_SLACK = 0.9
"""A member whose clock runs fast is not as patient as it seems to itself."""
S = 1_000_000_000


class QuorumKeepsWhatIsNeeded(Invariant):
    """Knows by itself who ever had which snapshot: a disk that loses one later does not make a purge wrong.

    The quorum is one of the configuration that was in force when the member took note of it. Seed 3029: members 0 and 1
    of three agree, member 0 is to be demoted, and of the voters 1 and 2, which are in force from then on, 2 is behind
    all of that. It needs no quorum of the later configuration: a demotion is committed only by a quorum that has
    everything up to there, and whoever leads meanwhile has a snapshot to give that covers what it deleted.
    """

    name = "a quorum keeps what is needed"

    def __init__(self, world: WatchedWorld, completeness: LeaderCompleteness) -> None:
        """`completeness`: reads the logs, and is to have read what is about to go."""
        super().__init__(world)
        self._completeness = completeness
        self._held: dict[int, dict[int, bytes]] = {}
        """By member: position and digest of every snapshot it ever put on its shelf."""
        self._agreed: set[tuple[int, bytes]] = set()
        """Position and digest of what a quorum had, by the configuration of a member that looked."""
        self._needs: dict[tuple[int, int], tuple[int, int]] = {}
        """What a member has heard from another, in this life or one before: the position that is needed, and when."""

    def on_booted(self, node: SimulatedNode) -> None:
        exchange, (shelf, reports, _) = node.module.exchange, node.module.held
        held = self._held.setdefault(node.member_id, {})
        held.update(shelf.digests())
        add, purge_log, begin = shelf.add, exchange.retention.purge_log, exchange.fetch.begin
        find_quorums, note_need = reports.find_quorums, reports.note_need

        def hear_add(entry: Any, digest: bytes) -> None:
            held[entry.log_position] = digest
            add(entry, digest)

        def hear_find_quorums(voter_ids: Collection[int], threshold: int) -> Any:
            self._look_for_quorums(node)
            return find_quorums(voter_ids, threshold)

        def hear_need(member_id: int, position: int, now_ns: int) -> None:
            self._needs[node.member_id, member_id] = position, self.world.now_ns
            note_need(member_id, position, now_ns)

        def hear_purge(recording_id: int, bound: int) -> int:
            assert node.node is not None
            former_start = node.node.archive.descriptor(recording_id).start_position
            if node.node.archive.segment_base(recording_id, max(bound, 0)) > 0:
                self._completeness.on_checkpoint()
            removed = int(purge_log(recording_id, bound))
            if removed:
                self._check_purge(node, recording_id)
                self._check_needs(node, recording_id, former_start)
            return removed

        def hear_begin(wanted: Any, source_id: int, now_ns: int) -> bool:
            is_begun = bool(begin(wanted, source_id, now_ns))
            if is_begun:
                self._check_fetch(node, *wanted)
            return is_begun

        shelf.add, exchange.retention.purge_log = hear_add, hear_purge
        exchange.fetch.begin, reports.find_quorums = hear_begin, hear_find_quorums
        reports.note_need = hear_need
        self._hear_reports(node)

    def _hear_reports(self, node: SimulatedNode) -> None:
        handlers = node.module.intakes.members.handlers
        on_report = handlers[ordo_codecs.SNAPSHOT_REPORT]

        def hear(report: Any, now_ns: int) -> None:
            self._needs[node.member_id, report.member_id] = report.needed_position, self.world.now_ns
            on_report(report, now_ns)

        handlers[ordo_codecs.SNAPSHOT_REPORT] = hear

    def _look_for_quorums(self, node: SimulatedNode) -> None:
        configuration = node.module.core.configuration
        for snapshot in {row for held in self._held.values() for row in held.items()} - self._agreed:
            holders = set(self._holders(*snapshot)).intersection(configuration.voter_ids)
            if len(holders) >= configuration.quorum_threshold:
                self._agreed.add(snapshot)

    def _holders(self, position: int, digest: bytes) -> list[int]:
        return [one for one in self._held if self._held[one].get(position) == digest]

    def _check_purge(self, node: SimulatedNode, recording_id: int) -> None:
        assert node.node is not None
        start = node.node.archive.descriptor(recording_id).start_position
        held = self._held[node.member_id].items()
        agreed_position = max((position for position, _ in held & self._agreed), default=-1)
        self.world.note(f"{node.name} log begins at {start}")
        self.world.trace.count_fault("log purged")
        if start > agreed_position:
            self.fail(f"{node.name} deleted log up to {start}, a quorum has its snapshots up to {agreed_position}")

    def _check_needs(self, node: SimulatedNode, recording_id: int, former_start: int) -> None:
        assert node.node is not None
        start = node.node.archive.descriptor(recording_id).start_position
        since_ns = self.world.now_ns - int(self.world.options.retention_patience_s * S * CLOCK_SLACK)
        for other_id in node.module.core.configuration.member_ids:
            needed, heard_ns = self._needs.get((node.member_id, other_id), (-1, 0))
            if former_start <= needed < start and heard_ns > since_ns:
                self.fail(
                    f"{node.name} deleted log up to {start}, node{other_id} said that it lacks it from {needed} on"
                )

    def _check_fetch(self, node: SimulatedNode, position: int, digest: bytes) -> None:
        """The member itself may have had it once, and be one of that quorum. What it has itself needs none: it
        replaces it because bits have rotted."""
        holders = self._holders(position, digest)
        self.world.note(f"{node.name} fetches the snapshot at {position} of members {holders}")
        is_own = self._held[node.member_id].get(position) == digest
        if not is_own and (position, digest) not in self._agreed:
            self.fail(f"{node.name} fetches the snapshot at {position}, which only members {holders} ever had")
