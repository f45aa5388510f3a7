"""Makes the folder of a former primary that of a standby of the cluster that went on: `ordo standby rejoin`.

    compare     up to where the logs are alike, and what is here alone (ordo.standby.divergence)
    keep        that, as an archive beside the log (ordo.standby.surplus), and what the store had
    mark        a row of the store: from here on no node starts with the folder, and the same command goes on
    cut off     the log ends where it is alike, and no more is known to be committed
    settle      in one transaction the store becomes that of a standby, which copies from there on

Nothing is changed before what is dropped has been kept durably. A crash is followed by the same command: before the
mark it compares anew, behind it it needs neither the cluster nor the order again.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.build import open_archive
from ordo.backup.folder import CLUSTER, FORMAT, read_json, write_json
from ordo.cluster.admin.member_store import open_stopped, open_stored
from ordo.cluster.module.state.folder_rows import Owner, describe_foreign
from ordo.runtime.errors import ClusterError
from ordo.runtime.io.storage import FileStorage, Storage
from ordo.runtime.native.clock import Clock, SystemClock
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.salvage.holdings import Findings, examine
from ordo.salvage.stopped_folder import keep_evidence, note_committed, remove_index
from ordo.standby.divergence import Divergence, compare_with
from ordo.standby.folder import ORDER, PROMOTING, PROMOTION, STATUS, SWITCH, demand_alone, is_standby
from ordo.standby.surplus import keep_surplus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ordo.cluster.module.state.state_store import StateStore
    from ordo.cluster.settings.config import NodeSettings
    from ordo.standby.divergence import Successor

REJOIN = "rejoin.json"
FORMER = (PROMOTION, STATUS, SWITCH, ORDER, PROMOTING)
"""What a standby that was promoted has beside its archive: of a life that is over."""


class Rejoined(NamedTuple):
    """What a rejoin has made."""

    identity: str
    """That of the cluster that the folder follows now."""
    position: int
    """The folder has its log up to here."""
    end_position: int
    """It had its former log up to here."""
    dropped_count: int
    kept: str
    """The archive that has what was dropped; empty where nothing was."""

    def lines(self) -> Iterator[str]:
        """Yield the report for an operator."""
        if self.dropped_count:
            yield f"{self.dropped_count} records were dropped from the log; they are kept in {self.kept}"
        yield (
            f"rejoined: the folder is that of a standby of the cluster with identity {self.identity[:12]}, and has its "
            f"log up to position={self.position}; `ordo standby run` follows it from there"
        )


def find_rejoined(config: NodeSettings, endpoints: list[str]) -> Rejoined | None:
    """Return what an earlier call has made of a folder that is a standby's still; None where there was none.

    Raises ClusterError where that was for other endpoints.
    """
    found = read_json(config.node.data_dir / REJOIN) if is_standby(config) else {}
    if not found:
        return None
    _demand_same(config, found.pop("endpoints"), endpoints, "is a standby's already: start it with `ordo standby run`")
    return Rejoined(**found)


def _demand_same(config: NodeSettings, kept: list[str], endpoints: list[str], state: str) -> None:
    """Raise ClusterError unless endpoints are those of the earlier call."""
    if set(kept) != set(endpoints):
        raise ClusterError(
            f"--endpoints {','.join(endpoints)}: nothing was changed. A rejoin with --endpoints {','.join(kept)} was "
            f"given before, and {config.node.data_dir} {state}"
        )


def is_begun(config: NodeSettings) -> bool:
    """Return whether an earlier call has begun to change the folder. Raises StorageMissingError without one."""
    with open_stored(config) as store:
        return store.folder.rejoining is not None


def read_folder(config: NodeSettings) -> Findings:
    """Read the folder of a former primary.

    Raises ConfigurationError where node.toml names others, ClusterError where the folder is another member's, a
    standby's, or of a promotion or recovery that did not come to its end, StorageInUseError while a process has it.
    """
    demand_alone(config)
    own, folder = Owner(config.cluster.cluster_id, config.node.member_id), str(config.node.data_dir)
    with open_stored(config) as store:
        rows = store.folder
        if rows.owner is not None and rows.owner != own:
            raise ClusterError(describe_foreign(rows.owner, own, folder, rows.origin))
        if rows.is_standby:
            raise ClusterError(f"{folder} is a standby's already: start it with `ordo standby run`")
        if rows.recovering is not None:
            raise ClusterError(f"{folder}: a recovery did not come to its end; give that command again first")
    return examine(config)


def compare_folder(config: NodeSettings, successor: Successor) -> tuple[Findings, Divergence, str]:
    """Compare a folder with the cluster that goes on, and keep what it has more; return where that is as well.

    Raises what `read_folder` and `compare_with` raise.
    """
    storage, findings = FileStorage(open_lmdb), read_folder(config)
    found = compare_with(findings, str(config.archive_dir), storage, successor)
    assert findings.log is not None, "it was compared"
    kept = ""
    if found.records:
        with open_stopped(config, storage):  # no process has it
            kept = keep_surplus(storage, str(config.node.data_dir), str(config.archive_dir), findings.log, found)
    return findings, found, kept


def find_refusal(found: Divergence, drop: int | None) -> str:
    """Return why nothing is changed: the operator has not ordered to drop exactly what there is; or ''."""
    count = found.record_count
    if drop is not None and drop != count:
        return f"--drop {drop}: this folder has {count} records that the cluster has not; nothing was changed"
    if drop is None and found.needs_order:
        return (
            f"nothing was changed: give --drop {count} to drop these {count} records from the log of this folder, once "
            "nobody needs them there"
        )
    return ""


def rejoin(config: NodeSettings, endpoints: list[str], findings: Findings, found: Divergence, kept: str) -> Rejoined:
    """Make the folder a standby's, once what it has more was kept, and ordered to be dropped."""
    directory = config.node.data_dir
    rejoined = Rejoined(found.identity, found.position, found.end_position, found.record_count, kept)
    evidence = {"rejoined": rejoined._asdict(), **{one: read_json(directory / one) for one in FORMER}}

    def note() -> None:
        write_json(directory / REJOIN, {**rejoined._asdict(), "endpoints": endpoints})

    become_standby(config, findings, found, evidence, note=note, tell=lambda: _change_files(config))
    return rejoined


def finish(config: NodeSettings, endpoints: list[str]) -> Rejoined:
    """Go on where an earlier call was ended behind its mark.

    Raises ClusterError where that was for other endpoints, StorageInUseError while a process has the folder.
    """
    kept = read_json(config.node.data_dir / REJOIN)["endpoints"]
    _demand_same(config, kept, endpoints, "was being made a standby's: give that one again")
    settle(config, FileStorage(open_lmdb), SystemClock(), tell=lambda: _change_files(config))
    rejoined = find_rejoined(config, endpoints)
    assert rejoined is not None, "it was written before the mark"
    return rejoined


def _change_files(config: NodeSettings) -> None:
    """Have the files beside the archive be those of a standby that follows the new cluster."""
    directory = config.node.data_dir
    endpoints = read_json(directory / REJOIN)["endpoints"]
    write_json(directory / CLUSTER, {"format": FORMAT, "endpoints": endpoints})
    for name in FORMER:
        (directory / name).unlink(missing_ok=True)
    FileStorage().sync_directory(str(directory))


# -- the folder, also a simulated one ----------------------------------------------------------------------------------


def become_standby(
    config: NodeSettings,
    findings: Findings,
    found: Divergence,
    evidence: Mapping[str, object],
    *,
    storage: Storage | None = None,
    clock: Clock | None = None,
    note: Callable[[], None] = lambda: None,
    tell: Callable[[], None] = lambda: None,
) -> None:
    """Make a stopped folder, as it was read and compared, that of a standby.

    `evidence` is kept beside what the store had; `note` is called before the mark, `tell` before the store says that
    the folder is a standby's. Raises ClusterError where the folder was used since it was read, StorageInUseError while
    a process has it.
    """
    storage = storage or FileStorage(open_lmdb)
    with open_stopped(config, storage) as store:
        if store.folder.start != findings.holding.start:
            raise ClusterError(f"{config.node.data_dir} was started since it was read: give the same command again")
        _keep_evidence(config, storage, store, evidence, found.identity)
        note()
        store.folder.put_rejoining(found.position)
    settle(config, storage, clock or SystemClock(), tell=tell)


def settle(config: NodeSettings, storage: Storage, clock: Clock, tell: Callable[[], None] = lambda: None) -> None:
    """Cut the log off where the mark says, and make the folder a standby's; the same again after a crash."""
    with open_stopped(config, storage) as store:
        position = store.folder.rejoining
        assert position is not None, "the folder has the mark"
        _cut_off(config, storage, clock, store.load().log_recording_id, position)
        note_committed(storage, str(config.cluster_dir), position)
        tell()
        store.become_standby(position)


def _keep_evidence(
    config: NodeSettings, storage: Storage, store: StateStore, evidence: Mapping[str, object], identity: str
) -> None:
    """Keep evidence in a file of its own: a call that a crash has ended may have left one as well."""
    paths = (f"{config.cluster_dir}/rejoin-{identity[:12]}-{number}.json" for number in count(1))
    keep_evidence(storage, next(one for one in paths if not storage.exists(one)), store, evidence)


def _cut_off(config: NodeSettings, storage: Storage, clock: Clock, recording_id: int, position: int) -> None:
    if recording_id == NULL_VALUE:
        return
    remove_index(storage, str(config.cluster_dir))
    with open_archive(config.archive_dir, "rejoin", storage, clock) as (archive, _):
        # also where it ends there: a crash may have come before what is behind was cleared
        archive.truncate(recording_id, position)
