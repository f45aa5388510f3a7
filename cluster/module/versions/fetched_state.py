"""Installs a fetched snapshot: in place of a damaged one, of a differing state, or of the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.archive.scrub import Scrubber
    from ordo.cluster.module.snapshots.snapshot_fetch import FetchedSnapshot
    from ordo.cluster.module.snapshots.snapshot_repair import SnapshotRepair
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.cluster.module.versions.state_doubt import StateDoubt
    from ordo.cluster.module.versions.version_lacks import VersionLacks
    from ordo.sequencer.sequencer import Sequencer


class RestartedHost(Protocol):
    """The member that starts again from the snapshot."""

    def start_again(self, reason: str) -> None:
        """End the member and start it again from its store."""


class FetchedState:
    """Installs the snapshots that one member has fetched."""

    def __init__(
        self,
        host: RestartedHost,
        sequencer: Sequencer,
        store: StateStore,
        scrubber: Scrubber,
        snapshot_repair: SnapshotRepair,
        doubt: StateDoubt,
        lacks: VersionLacks,
    ) -> None:
        self._host = host
        self._sequencer = sequencer
        self._store = store
        self._scrubber = scrubber
        self._snapshot_repair = snapshot_repair
        self._doubt = doubt
        self._lacks = lacks

    def install(self, fetched: FetchedSnapshot) -> None:
        """Install a snapshot. Where it reaches further than the log, it replaces everything this member had."""
        position = fetched.entry.log_position
        if replaced := self._snapshot_repair.install(fetched):
            self._scrubber.note_replaced(replaced)
        elif position > self._sequencer.append_position:
            self._store.install(fetched.entry, fetched.digest, fetched.terms)
            self._host.start_again(f"starts again from the snapshot at log position {position} of another member")
        elif self._doubt.position != NULL_VALUE:
            self._doubt.install(fetched)
        else:
            self._lacks.install(fetched)
