"""Makes the log of one member that of a cluster of its own: a new epoch, in the member's data folder.

Nothing of the folder's log is changed below the end that the comparison told: the records of the new epoch follow it.

    NewLeadershipTermEvent   of a term far beyond those of the former cluster
    LevelEvent               where the log may not have the next record yet
    ClusterIdentityEvent     another identity: no former member takes part, and clients that know more are told
    ConfigurationEvent       this member as the only voter
    SessionCloseEvents       of all sessions that were open

While they are written, a row of the store keeps the member from being started; the store becomes that of the new epoch
in one transaction. After a crash in between the same command begins again.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.segments.catalog import RecordingState
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.build import ClosingRecords, open_archive, record_messages
from ordo.backup.restore import close_log
from ordo.cluster.admin.member_store import open_stopped
from ordo.cluster.module.state.folder_rows import Recovering
from ordo.cluster.module.state.state_store import Epoch
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.cluster.wire.log_identity import IDENTITY_BYTES, Origin
from ordo.runtime.errors import ClusterError
from ordo.runtime.io.storage import FileStorage, Storage
from ordo.runtime.native.clock import Clock, SystemClock
from ordo.runtime.native.cluster_time import time_ms
from ordo.salvage.comparison import Comparison, find_refusal
from ordo.salvage.holding_rows import encode_holding
from ordo.salvage.stopped_folder import keep_evidence, note_committed, remove_index

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ordo.cluster.settings.config import NodeSettings
    from ordo.salvage.holdings import Findings

EVIDENCE = "recovery"
"""The evidence of each recovery is in `cluster/recovery-<identity>.json`."""


class Recovered(NamedTuple):
    """The new epoch."""

    member_id: int
    identity: bytes
    term_id: int
    from_position: int
    end_position: int
    closed_session_count: int
    evidence_path: str

    def lines(self) -> list[str]:
        return [
            f"member {self.member_id} is the only voter of a cluster of its own, with identity "
            f"{self.identity.hex()[:12]}: it goes on behind position={self.from_position}, in term {self.term_id}; "
            f"{self.closed_session_count} sessions are closed",
            f"what was compared, and what its store had before, is in {self.evidence_path}",
            f"now write {self.member_id} alone into the [[members]] of its node.toml, and start it; keep the folders "
            "of the other members, never start them again, and add members with new ids and empty folders "
            "(`ordo cluster add-learner`)",
        ]

    def describe(self) -> dict[str, object]:
        return {**self._asdict(), "identity": self.identity.hex()}


def begin_epoch(
    config: NodeSettings,
    findings: Findings,
    comparison: Comparison,
    *,
    storage: Storage | None = None,
    clock: Clock | None = None,
    draw: bytes = b"",
) -> Recovered:
    """Make the member's log that of a cluster of its own.

    `draw`: random bytes for the identity, drawn here by default.

    Raises ClusterError where `find_refusal` finds a reason, or the folder has changed since it was read;
    StorageInUseError while the member runs.
    """
    if refusal := find_refusal(comparison, config.node.member_id):
        raise ClusterError(refusal)
    evidence = {
        "holdings": [encode_holding(one) for one in comparison.holdings],
        "comparison": comparison.describe(),
    }
    return go_on_alone(config, findings, evidence, storage=storage, clock=clock, draw=draw)


def go_on_alone(
    config: NodeSettings,
    findings: Findings,
    evidence: Mapping[str, object],
    *,
    storage: Storage | None = None,
    clock: Clock | None = None,
    draw: bytes = b"",
    tell: Callable[[Recovered], None] = lambda _: None,
) -> Recovered:
    """Make the log of a folder, as it was read, that of a cluster of its own, though others may have more of it.

    `evidence`: what is kept beside what the store had. `tell` keeps what is about to be done, before the store says
    that it is. `draw` and what is raised: as `begin_epoch` has them.
    """
    storage = storage or FileStorage(open_lmdb)
    member_id = config.node.member_id
    if findings.log is None:
        raise ClusterError(
            f"member {member_id} has a snapshot alone, and no log behind it that a new epoch could follow: go on with "
            "another member, or restore a backup"
        )
    closing = _close(config, findings, draw or secrets.token_bytes(IDENTITY_BYTES))
    with open_stopped(config, storage) as store:
        base_position = findings.holding.end_position
        evidence_path = f"{config.cluster_dir}/{EVIDENCE}-{closing.identity.hex()[:12]}.json"
        found = {**evidence, "identity": closing.identity.hex(), "term_id": closing.term_id}
        keep_evidence(storage, evidence_path, store, found)
        store.folder.put_recovering(Recovering(base_position, findings.holding.committed_position))
        end_position = _append(config, storage, clock or SystemClock(), findings, closing)
        note_committed(storage, str(config.cluster_dir), end_position)  # before the store, which says that all is done
        made = Recovered(
            member_id,
            closing.identity,
            closing.term_id,
            base_position,
            end_position,
            len(findings.survey.sessions),
            evidence_path,
        )
        tell(made)
        store.begin_epoch(
            Epoch(
                base_position,
                end_position,
                findings.holding.terms,
                closing.term_id,
                time_ms(findings.survey.timestamp),
                Origin(closing.identity, closing.identity_position),
            )
        )
    return made


def _close(config: NodeSettings, findings: Findings, draw: bytes) -> ClosingRecords:
    """Return the records of the new epoch."""
    members = NamedConfiguration((config.own_member,), ())
    assert findings.log is not None
    return close_log(findings.survey, b"", findings.log.term_length, members, config.cluster.cluster_id, draw)


def _append(config: NodeSettings, storage: Storage, clock: Clock, findings: Findings, closing: ClosingRecords) -> int:
    """Append the records to the member's log, durably; return where they end."""
    log, position = findings.log, findings.holding.end_position
    assert log is not None
    with open_archive(config.archive_dir, "recover", storage, clock) as (archive, transport):
        found = archive.descriptor(log.recording_id)
        if found.stop_position < position:
            raise ClusterError(
                f"the log of member {config.node.member_id} ends at position={found.stop_position}, and was read "
                f"up to {position}: its folder has changed; give the command again"
            )
        if found.stop_position > position or found.state is not RecordingState.VALID:
            remove_index(storage, str(config.cluster_dir))  # it may be of what is cut off
            archive.truncate(log.recording_id, position)
        return record_messages(archive, transport, log.recording_id, position, closing.records)[-1]
