"""The data folder of a standby: a node's, with some files beside its archive and its store.

    <data_dir>/backup.json      the primary that it follows: its identity, and the members' addresses
    <data_dir>/standby.json     what the running `ordo standby run` does; written once a second
    <data_dir>/promote.json     an operator's order, until it is carried out
    <data_dir>/promoting.json   a command compares this standby with others, to promote it
    <data_dir>/switch.json      the number that the primary's log names if it ends for this standby to go on
    <data_dir>/promotion.json   what a promotion found, once the folder is that of a cluster of its own
    <data_dir>/rejoin.json      what was found when the folder of a former primary became a standby's

A row of the store says that the log is a copy (`FolderRows.is_standby`): until it is gone, no node starts with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ordo.archive.segments.catalog import CATALOG_NAME, RecordingDescriptor
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import CLUSTER, FORMAT, Contents, read_json
from ordo.cluster.admin.member_store import open_stopped
from ordo.cluster.module.state.folder_rows import Owner, describe_foreign, describe_rejoining
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin, identity_text
from ordo.runtime.errors import ClusterError, ConfigurationError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from pathlib import Path

    from ordo.archive.archive import Archive
    from ordo.cluster.settings.config import NodeSettings

STATUS = "standby.json"
ORDER = "promote.json"
PROMOTING = "promoting.json"
SWITCH = "switch.json"
PROMOTION = "promotion.json"
SEEDING = "copying what there is"
"""The state of a standby that has no log yet to go on with."""
OTHER_PRIMARY = "give the addresses of that cluster, or another data_dir"


def demand_alone(config: NodeSettings) -> None:
    """Raise ConfigurationError unless node.toml names this node alone."""
    if len(config.member_list) != 1 or config.node.learner:
        raise ConfigurationError(
            f"members: {len(config.member_list)} are named; a standby is promoted to a cluster of one, so its "
            "node.toml names it alone, as a voter"
        )


@contextmanager
def _stored(config: NodeSettings) -> Iterator[StateStore | None]:
    """Open the store of a folder to read it, also while a node has it; None where there is none."""
    path = config.cluster_dir / "state.mdb"
    if not path.exists():
        yield None
        return
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(path), read_only=True))
    try:
        yield store
    finally:
        store.close()


def is_standby(config: NodeSettings) -> bool:
    """Return whether a folder has a copy that was not promoted."""
    with _stored(config) as store:
        return store is not None and store.folder.is_standby


def has_log(config: NodeSettings) -> bool:
    """Return whether a folder has a log that a node can go on with."""
    with _stored(config) as store:
        return store is not None and store.load().log_recording_id != NULL_VALUE


def is_begun_anew(config: NodeSettings) -> bool:
    """Return whether the log of a folder ends before a gap, and what is behind that is not whole yet."""
    with _stored(config) as store:
        return store is not None and store.folder.is_begun_anew


def read_origin(config: NodeSettings) -> Origin | None:
    """Return which cluster the log of a folder is of, as far as it says so."""
    with _stored(config) as store:
        return None if store is None else store.folder.origin


def is_being_promoted(directory: Path) -> bool:
    """Return whether an operator has ordered a promotion, or a command finds out whether it may."""
    return any((directory / name).exists() for name in (PROMOTING, ORDER))


def begin_anew(config: NodeSettings) -> None:
    """Note permanently that the log of a folder ends before a gap; a promotion can go on with it all the same."""
    with open_stopped(config) as store:
        store.folder.put_standby(begins_anew=True)


def prepare(config: NodeSettings) -> None:
    """Make a new data folder that of a standby.

    Raises ConfigurationError where it has a member's data, ClusterError where that is being made a standby's.
    """
    directory = config.node.data_dir
    if is_standby(config):
        return
    with _stored(config) as found:
        if found is not None and found.folder.rejoining is not None:
            raise ClusterError(describe_rejoining(str(directory)))
        is_used = found is not None and not found.load().is_empty
    if is_used or (config.archive_dir / CATALOG_NAME).exists():
        raise ConfigurationError(
            f"{directory} has the data of a node that is no standby: give an empty folder as data_dir, start it with "
            "`ordo node`, or make a former primary a standby with `ordo standby rejoin`"
        )
    storage = FileStorage(open_lmdb)
    for made in (directory, config.archive_dir, config.cluster_dir):
        storage.make_directory(str(made))
    store = StateStore(storage.open_metadata(str(config.cluster_dir / "state.mdb")))
    try:
        store.folder.put_standby()
    finally:
        store.close()


def is_promoted(config: NodeSettings) -> bool:
    """Return whether a folder was a standby's, and is a cluster's of its own now.

    A promotion gives the store an identity. Without one the folder is something else: that of a backup, which has the
    same file beside it, or of a standby whose store is lost.
    """
    with _stored(config) as store:
        rows = None if store is None else store.folder
        is_cluster = rows is not None and not rows.is_standby and rows.rejoining is None and rows.origin is not None
    return is_cluster and (config.node.data_dir / CLUSTER).exists()


def _find_foreign(config: NodeSettings, own: Owner) -> str:
    """Return why a folder does not belong to this member, or an empty string."""
    with _stored(config) as store:
        rows = None if store is None else store.folder
        owner = None if rows is None else rows.owner
        if rows is None or owner is None or owner == own:
            return ""
        return describe_foreign(owner, own, str(config.node.data_dir), rows.origin)


def demand_standby(config: NodeSettings) -> Path:
    """Return the data folder.

    Raises ConfigurationError where it is, and was, no standby's; ClusterError where it is that of another member id.
    """
    directory = config.node.data_dir
    if not is_standby(config) and not is_promoted(config):
        raise ConfigurationError(f"{directory}: there is no standby in this folder; `ordo standby run` makes one")
    own = Owner(config.cluster.cluster_id, config.node.member_id)
    if refusal := _find_foreign(config, own):
        raise ClusterError(refusal)
    return directory


def read_number(config: NodeSettings) -> int:
    """Return the number by which the primary's log names this standby as the one that goes on; 0: it has drawn none."""
    return int(read_json(config.node.data_dir / SWITCH).get("number", 0))


Write = Callable[[str, dict[str, object]], None]
"""Writes one of the files of a folder, by its name."""


class NodeFolder:
    """The folder of a running standby, as what follows the primary's log writes to it."""

    def __init__(
        self,
        directory: Path,
        archive: Archive,
        store: StateStore,
        recording_id: Callable[[], int],
        write: Write,
        describe: Callable[[], dict[str, object]],
    ) -> None:
        """`recording_id` says which recording is the log; `describe` what of the status the feed alone knows."""
        self._directory = directory
        self.archive = archive
        self.store = store
        self._recording_id = recording_id
        self._write = write
        self._describe = describe

    def contents(self) -> Contents:
        """Return the log, and the snapshots."""
        state, recording_id = self.store.load(), self._recording_id()
        stretches: list[RecordingDescriptor] = []
        if recording_id != NULL_VALUE:
            stretches.append(self.archive.descriptor(recording_id))
        return Contents(stretches, sorted(one for one in state.snapshots if one.is_valid), state.digests)

    def known_cluster(self) -> KnownCluster:
        """Return the primary, as far as its log names it."""
        origin = self.store.folder.origin
        whose = "" if origin is None else f"the log in {self._directory}"
        known = KnownCluster(origin, whose, OTHER_PRIMARY)
        known.position = max((one.stop_position for one in self.contents().stretches), default=0)
        return known

    def write_cluster(self, endpoints: list[str], origin: Origin | None) -> None:
        """Remember the primary's addresses."""
        identity = {} if origin is None else {"cluster": identity_text(origin)}
        self._write(CLUSTER, {"format": FORMAT, "endpoints": endpoints, **identity})

    def write_status(self, values: Mapping[str, object]) -> None:
        """Write what is done."""
        self._write(STATUS, {**values, **self._describe()})
