"""The lives of a standby: it begins with a copy, follows as a node, and is a node of its own cluster once promoted.

    seeding      there is no log that could go on, or it ends before a gap: the primary's newest snapshot and the log
                 behind it are copied, as a backup does it (ordo.backup.follow)
    following    a node runs, and its log grows with the primary's (ordo.standby.feed)
    promotion    ordered by an operator, or the primary has ended its log for this standby to go on: the stopped
                 folder gets a new epoch (ordo.standby.promotion)
    on its own   a plain node

A crash in any of them is followed by the same one: what is in the folder decides.
"""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import BackupFolder, read_json, write_json
from ordo.backup.follow import Backup
from ordo.cluster.node.node import NodeMaker
from ordo.runtime.io.storage import DirectoryLock, FileStorage
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.standby.copying import choose_node
from ordo.standby.folder import (
    ORDER,
    SEEDING,
    STATUS,
    begin_anew,
    demand_standby,
    has_log,
    is_begun_anew,
    is_promoted,
    prepare,
    read_number,
)
from ordo.standby.node import StandbyNode
from ordo.standby.promotion import complete, order_switch, promote
from ordo.standby.report import remember
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.secure.settings import Encryption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ordo.cluster.settings.config import NodeSettings
    from ordo.standby.feed import Primary
    from ordo.standby.promotion import Promotion

PARK_NS = 1_000_000
PROMOTED = "promoted"


class Lives:
    """Gives, before each start of the process's node, what makes it; see `run_node`."""

    def __init__(self, primary: Primary) -> None:
        self._primary = primary
        self._node: StandbyNode | None = None
        self._held: DirectoryLock | None = None

    def next_life(self, config: NodeSettings) -> NodeMaker | None:
        """Return what makes the node; None where the process was told to end meanwhile."""
        if not is_promoted(config):
            prepare(config)
            self._hold(config)
        demand_standby(config)
        if is_promoted(config):  # perhaps by a command, before this process had the folder
            if self._is_ordered(config) and (done := complete(config)) is not None:
                self._tell_promotion(done)  # a crash came between the promotion and its report
            return choose_node(config)
        node, self._node = self._node, None
        if node is not None and node.feed is not None and node.feed.has_gap:
            begin_anew(config)
        if node is not None and node.is_successor:
            order_switch(config)
            return self._promote(config)
        can_promote = self._is_ordered(config) and has_log(config)
        can_follow = has_log(config) and not is_begun_anew(config)
        if not can_promote and not can_follow and not self._seed(config):
            return None
        if self._is_ordered(config):
            return self._promote(config)
        return partial(self._make, config)

    def _hold(self, config: NodeSettings) -> None:
        """Keep the folder for this process, between two lives as well. Raises StorageInUseError.

        A node's own lock ends with each life; a command that orders a promotion must not take the folder then.
        """
        if self._held is None:
            self._held = FileStorage(open_lmdb).lock_directory(str(config.cluster_dir))

    def _make(self, config: NodeSettings, *arguments: Any) -> StandbyNode:
        directory = config.node.data_dir
        former = read_json(directory / STATUS)

        def write(name: str, values: Mapping[str, object]) -> None:
            write_json(directory / name, remember(values, former) if name == STATUS else dict(values))

        self._node = StandbyNode(
            *arguments,
            primary=self._primary,
            write=write,
            is_ordered=(directory / ORDER).exists,
            number=partial(read_number, config),
        )
        return self._node

    def _promote(self, config: NodeSettings) -> NodeMaker:
        self._tell_promotion(promote(config))
        write_json(config.node.data_dir / STATUS, {"state": PROMOTED})
        return choose_node(config)

    def _tell_promotion(self, done: Promotion) -> None:
        for line in done.lines():
            self._primary.report(line)

    def _is_ordered(self, config: NodeSettings) -> bool:
        return (config.node.data_dir / ORDER).exists()

    def _seed(self, config: NodeSettings) -> bool:
        """Copy the primary's newest snapshot and its log, until a node can go on; False: told to end before.

        Where there is a log from before a gap, the order to promote ends it as well.
        """
        encryption, keys = config.encryption, None
        if encryption.is_on:
            keys = Encryption(str(encryption.key_file), str(encryption.trusted_file))
        directory = config.node.data_dir
        with FileStorage(open_lmdb).lock_directory(str(directory)):
            transport = ClientTransport.embedded("standby", clients_max=4, encryption=keys)
            try:
                folder = SeedFolder(
                    directory,
                    transport.client,
                    segment_length_bytes=config.cluster.segment_length_bytes,
                    state_path=config.cluster_dir / "state.mdb",
                )
                with folder:
                    return self._copy(folder, transport, config.node.member_id)
            finally:
                transport.close()

    def _copy(self, folder: SeedFolder, transport: ClientTransport, standby_id: int) -> bool:
        ends: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda found, _: ends.append(found))
        primary = self._primary
        may_turn_back = folder.store.load().log_recording_id != NULL_VALUE
        backup = Backup(
            folder,
            transport.client,
            primary.addresses,
            credentials=primary.credentials,
            interval_s=primary.interval_s,
            report=primary.report,
            standby_id=standby_id,
        )
        is_complete = False
        try:
            while not ends and not is_complete and not (may_turn_back and (folder.path / ORDER).exists()):
                now_ns = transport.drive()
                if folder.archive.do_work(now_ns) + backup.work(now_ns) == 0:
                    transport.park(PARK_NS)
                is_complete = backup.is_complete
        finally:
            backup.close()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)  # the node that follows is not there yet to be told
        if ends:
            return False
        if is_complete:
            folder.settle()
        return True


class SeedFolder(BackupFolder):
    """The folder of a standby while it has no log to go on with: a backup's, in the places of a node's."""

    def write_status(self, values: dict[str, Any]) -> None:
        """Write what is done where `ordo standby status` looks for it."""
        known = read_json(self.path / STATUS).get("primary_position", -1)
        primary_position = max(known, values["cluster_position"])
        write_json(self.path / STATUS, {**values, "state": SEEDING, "primary_position": primary_position})

    def settle(self) -> None:
        """Make the newest stretch the node's log, and let go of those before a gap."""
        *former, newest = self.contents().stretches
        self.store.put_log_recording(newest.recording_id)
        if (origin := self._origin_of_snapshots(self.contents())) is not None:
            self.store.folder.put_origin(origin)  # the primary may have been recovered behind the log before a gap
        self.store.folder.put_standby()
        for one in former:
            self.archive.purge(one.recording_id)
