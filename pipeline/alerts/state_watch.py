"""Do members hold the same state? Compares the digests of the snapshots that they took at the same log position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

from ordo.cluster.wire.snapshots.snapshot_digest import MessagesDigest
from ordo.pipeline.alerts.alerts import Alert
from ordo.pipeline.decoding.errors import CorruptRecordingError, PipelineError
from ordo.pipeline.recordings.planner import read_runs, whole_runs
from ordo.pipeline.recordings.predicates import Predicates
from ordo.pipeline.recordings.recordings import Recording, check_one_cluster, open_recordings, with_owners
from ordo.pipeline.replaying.replay_cluster import snapshot_position

UNKNOWN = -1
"""The service id of a snapshot whose service is not known."""


class StateWatch:
    """Reads each whole snapshot of each node once; one that cannot be read with each look."""

    def __init__(self, folders: list[str], commit: str = "auto", storage: Mapping[str, object] | None = None) -> None:
        self._folders, self._commit, self._storage = folders, commit, storage
        self._known: dict[str, tuple[int, str]] = {}
        self._told: set[tuple[int, int]] = set()
        self._damaged: dict[str, CorruptRecordingError | None] = {}
        """Keyed by recording; None: it was reported."""

    def look(self) -> list[Alert]:
        """Positions at which snapshots of a service differ, and snapshots that are damaged, each once.

        Raises OtherClusterError for folders of members of two clusters.
        """
        digests: dict[tuple[int, int], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        recordings = open_recordings(self._folders, "all", self._commit, storage=self._storage)
        check_one_cluster(recordings)
        for recording in with_owners(recordings):
            found = self._digest(recording)
            if found is not None:
                service_id = UNKNOWN if recording.owner is None else recording.owner.service_id
                digests[found[0], service_id][recording.node].add(found[1])
        alerts = [_damage_alert(key, error) for key, error in self._damaged.items() if error is not None]
        self._damaged = dict.fromkeys(self._damaged)
        for state, nodes in sorted(digests.items()):
            if _differ(nodes, is_of_one=state[1] != UNKNOWN) and state not in self._told:
                self._told.add(state)
                alerts.append(_alert(*state, nodes))
        return alerts

    def _digest(self, recording: Recording) -> tuple[int, str] | None:
        """Log position and digest of a service's snapshot; None for what is none, is not finished, or is damaged."""
        if not recording.is_service_snapshot or recording.descriptor.is_active:
            return None
        if recording.key not in self._known:
            try:
                self._known[recording.key] = _read(recording)
            except CorruptRecordingError as error:
                self._damaged.setdefault(recording.key, error)
                return None
            except PipelineError:  # no snapshot, or one that was never finished: the audit's to say
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


def _differ(nodes: Mapping[str, set[str]], *, is_of_one: bool) -> bool:
    """Return whether nodes differ in the snapshots of one position, as far as each has any.

    `is_of_one`: all are of one service; otherwise nobody knows of which service each one is.
    """
    if is_of_one:
        return len(set().union(*nodes.values())) > 1
    return any(not (one <= other or other <= one) for one, other in combinations(nodes.values(), 2))


def _damage_alert(key: str, error: CorruptRecordingError) -> Alert:
    return {
        "id": f"state:{key}:damaged", "kind": "state", "log": key, "position": error.position, "time": None,
        "text": f"a snapshot is damaged, and was not compared: {error}",
    }  # fmt: skip


def _alert(position: int, service_id: int, nodes: dict[str, set[str]]) -> Alert:
    held = {node: ",".join(sorted(digests)) for node, digests in sorted(nodes.items())}
    shown = "; ".join(f"{node} {digest}" for node, digest in held.items())
    of = f" of service {service_id}" if service_id > 0 else ""
    return {
        "id": f"state:{position}" + (f":{service_id}" if of else ""),
        "kind": "state", "log": ",".join(held), "position": position, "time": None,
        "text": f"the state{of} at position {position} is not the same everywhere: {shown}", "digests": held,
    }  # fmt: skip
