"""A snapshot is the state that replaying the log up to its position gives (Raft §7)."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from ordo.runtime.errors import CorruptFrameError
from tests.simulation.invariants.base import Invariant, WatchedWorld

if TYPE_CHECKING:
    from tests.simulation.nodes import SimulatedNode


class SnapshotsEqualReplay(Invariant):
    """All members take equal snapshots at one position, service and consensus module, and start from none but those."""

    name = "snapshots equal replay"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._digests: dict[int, str] = {}
        self._module_digests: dict[int, str] = {}
        self._read: dict[int, tuple[int, int]] = {}
        """By member: life and count of snapshots when its parts were read."""

    def on_snapshot(self, node: SimulatedNode, position: int, digest: str) -> None:
        known = self._digests.setdefault(position, digest)
        if known != digest:
            self.fail(f"{node.name} took the snapshot {digest} at {position}, another member {known}")

    def on_copied(self, position: int, digest: str) -> None:
        """Members start from a snapshot that a standby took, and that was seen to be what they have executed."""
        self._digests.setdefault(position, digest)

    def on_service_started(self, node: SimulatedNode, position: int, digest: str) -> None:
        if position > 0 and self._digests.get(position) != digest:
            self.fail(
                f"{node.name} starts at {position} from the snapshot {digest}, taken was {self._digests.get(position)}"
            )

    def on_checkpoint(self) -> None:
        for node in self.world.nodes:
            if not node.is_alive:
                continue
            counters = node.module.counters
            read = node.boots, int(counters.snapshot_count.value + counters.snapshots.copied.value)
            if read[1] > 0 and read != self._read.get(node.member_id):
                self._read[node.member_id] = read
                with node.readable_disk():
                    self._compare_newest(node)

    def _compare_newest(self, node: SimulatedNode) -> None:
        """What the consensus module has added to its newest snapshot."""
        assert node.node is not None
        entry = max((entry for entry in node.store.load().snapshots if entry.is_valid), default=None)
        if entry is None:
            return
        try:
            reader = node.node.archive.reader(entry.module_recording_id, None)
            payloads = [message.payload for message in reader.messages()]
        except CorruptFrameError:
            if not node.is_rotten:
                raise
            return
        digest = blake2b(b"".join(payloads), digest_size=8).hexdigest()
        known = self._module_digests.setdefault(entry.log_position, digest)
        if known != digest:
            self.fail(f"{node.name} has another snapshot of the consensus module at {entry.log_position} than others")
