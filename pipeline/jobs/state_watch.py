"""Do members hold the same state? Compares the digests of the snapshots that they took at the same log position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from cluster.wire.snapshot_digest import MessagesDigest
from pipeline.errors import PipelineError
from pipeline.jobs.alerts import Alert
from pipeline.jobs.stretches import SERVICE_SNAPSHOT_STREAM
from pipeline.planner import read_runs, whole_runs
from pipeline.predicates import Predicates
from pipeline.recordings import Recording, open_recordings
from pipeline.replay_cluster import snapshot_position


class StateWatch:
    """Reads each whole snapshot of each node once; a damaged one with each look."""

    def __init__(self, folders: list[str], commit: str = "auto", storage: Mapping[str, Any] | None = None) -> None:
        self._folders, self._commit, self._storage = folders, commit, storage
        self._known: dict[str, tuple[int, str]] = {}
        self._told: set[int] = set()

    def look(self) -> list[Alert]:
        """Positions at which snapshots differ, each once."""
        digests: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for recording in open_recordings(self._folders, "all", self._commit, storage=self._storage):
            found = self._digest(recording)
            if found is not None:
                digests[found[0]][recording.node].add(found[1])
        alerts = []
        for position, nodes in sorted(digests.items()):
            if len(set().union(*nodes.values())) > 1 and position not in self._told:
                self._told.add(position)
                alerts.append(_alert(position, nodes))
        return alerts

    def _digest(self, recording: Recording) -> tuple[int, str] | None:
        """Log position and digest of a service's snapshot; None for what is none, is not finished, or is damaged."""
        descriptor = recording.descriptor
        if descriptor.stream_id != SERVICE_SNAPSHOT_STREAM or descriptor.is_active:
            return None
        if recording.key not in self._known:
            try:
                self._known[recording.key] = _read(recording)
            except PipelineError:  # the audit's to say
                return None
        return self._known[recording.key]


def _read(recording: Recording) -> tuple[int, str]:
    digest, position = MessagesDigest(), -1
    runs = whole_runs(recording, recording.start, recording.limit, 0, recording.exact)
    for batch in read_runs(runs, Predicates(), ("payload",), 256, True):
        for payload in batch["payload"]:
            message = payload.as_py()
            if position < 0:
                position = snapshot_position([message])
            digest.add(message)
    return position, digest.digest().hex()


def _alert(position: int, nodes: dict[str, set[str]]) -> Alert:
    held = {node: ",".join(sorted(digests)) for node, digests in sorted(nodes.items())}
    shown = "; ".join(f"{node} {digest}" for node, digest in held.items())
    return {
        "id": f"state:{position}", "kind": "state", "log": ",".join(held), "position": position, "time": None,
        "text": f"the state at position {position} is not the same everywhere: {shown}", "digests": held,
    }  # fmt: skip
