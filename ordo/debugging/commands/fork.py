"""A cluster of one that goes on from a record of another cluster's log: a sandbox, to which messages may be sent."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.build import copy_recording
from ordo.backup.folder import ARCHIVE, STATE
from ordo.backup.plan import Target
from ordo.backup.restore import restore_members
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.settings.config import load_config
from ordo.init import Profile, write_cluster
from ordo.runtime.io.storage import FileStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordo.debugging.replaying.recorded_log import RecordedLog

COPY = ".source"


def fork(log: RecordedLog, position: int, folder: Path, service: str, port: int) -> Iterator[str]:
    """Make the folder of the cluster, and yield what was made. Raises ConfigurationError, OrdoError.

    The data is restored as from a backup: another cluster, with an identity and a term of its own, in which the
    sessions of the old one are closed.
    """
    written = write_cluster(folder, member_count=1, port=port, profile=Profile.DEVELOPMENT, service=service)
    (config,) = written.configs
    copy = folder / COPY
    try:
        _copy(log, position, copy)
        restored = restore_members(copy, [load_config(config)], Target(position, None))
    except BaseException:
        for made in (*written.configs, *written.tokens):
            made.unlink(missing_ok=True)
        raise
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    yield f"a cluster of one has the state at position {position}: {_shown(restored.folders[0])}"
    yield f"ordo node --config {config}"
    yield f"its clients use the endpoint {written.endpoints[0]}"


def _shown(path: Path) -> Path:
    """Return a path as one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _copy(log: RecordedLog, position: int, folder: Path) -> None:
    """Copy what leads to a position into a backup: the newest snapshot before it, and the log up to it."""
    (folder / ARCHIVE).mkdir(parents=True)
    entry = next((one for one in reversed(log.snapshots) if one.log_position <= position), None)
    catalog = Catalog.open(log.storage, log.directory, read_only=True)
    try:
        sources = {} if entry is None else {one: catalog.get(one) for one in entry.recording_ids}
    finally:
        catalog.close()
    made = Catalog.open(log.storage, str(folder / ARCHIVE))
    try:
        copy_recording(log.directory, made, log.descriptor, position, folder / ARCHIVE, "alias=log")
        ids = {
            one: copy_recording(log.directory, made, found, found.stop_position, folder / ARCHIVE, "alias=snapshot")
            for one, found in sources.items()
        }
    finally:
        made.close()
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(folder / STATE)))
    try:
        if entry is not None:
            copied = entry._replace(
                service_recording_id=ids[entry.service_recording_id],
                module_recording_id=ids[entry.module_recording_id],
                more_recording_ids=tuple(ids[one] for one in entry.more_recording_ids),
            )
            store.put_snapshot(copied, log.digests.get(entry.log_position, b""))
    finally:
        store.close()
