"""Deletes, once a second, older snapshots and the log before them that are no longer needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.cluster.module.log.feed_recorder import FeedRecorder
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.snapshots.retention import Retention
    from ordo.cluster.module.snapshots.snapshot_agreement import SnapshotAgreement
    from ordo.cluster.module.snapshots.snapshot_reports import SnapshotReports
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer


class OldLog:
    """Lets go of one member's old log and snapshots."""

    def __init__(
        self,
        core: ConsensusCore,
        sequencer: Sequencer,
        log: LogKeeper,
        feeds: FeedRecorder,
        retention: Retention,
        reports: SnapshotReports,
        agreement: SnapshotAgreement,
        cluster_time: Callable[[], int],
    ) -> None:
        self._core = core
        self._sequencer = sequencer
        self._log = log
        self._feeds = feeds
        self._retention = retention
        self._reports = reports
        self._agreement = agreement
        self._cluster_time = cluster_time

    def work(self, now_ns: int) -> None:
        """Update the agreed snapshot, and delete what is no longer needed after that."""
        recording_id = self._log.recording_id
        if recording_id == NULL_VALUE:
            return
        self._retention.clear(recording_id)
        self._agreement.work()
        if not self._reports.is_complete(self._core.configuration.member_ids, now_ns):
            return
        agreed_position, commit_position = self._agreement.agreed_position, self._sequencer.commit_position
        needed = self._reports.needed_position(self._log.start_position, now_ns)
        self._retention.remove_snapshots(agreed_position, needed, commit_position)
        bound = self._retention.find_log_bound(agreed_position, needed, commit_position, self._cluster_time())
        if self._retention.purge_log(recording_id, bound):
            self._feeds.purge(self._log.start_position)
