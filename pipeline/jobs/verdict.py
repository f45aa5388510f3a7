"""The verdict on the replay of one stretch of the log: agrees, differs, or not checked, and why.

A stretch is checked when something on record says what must come out: the snapshot that the cluster took at its end, or
a baseline, the version that ran, beside which every effect is compared. The messages that the service itself put into
the log, what it published to topics, and the answers to requests that a snapshot keeps are compared wherever they are
on record, but they alone do not make a stretch checked: they say little of the state. Hashes of the state that the log
has say all of it, up to the last of them, and nothing of what is behind.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from ordo.pipeline.decoding.errors import CorruptRecordingError, PipelineError, VersionChangesError
from ordo.pipeline.jobs.stretches import Stretch, read_snapshot
from ordo.pipeline.recordings.recorded_feeds import RecordedFeeds
from ordo.pipeline.recordings.recorded_hashes import RecordedHashes
from ordo.pipeline.replaying.replay_cluster import Effect, OfferCheck, ReplayCluster, SnapshotState, lockstep
from ordo.pipeline.replaying.service_names import make_service

AGREES, DIFFERS, NOT_CHECKED, PARTLY = "agrees", "differs", "not checked", "partly checked"
NO_SNAPSHOT = "no snapshot"
T = TypeVar("T")


class ServiceRaisedError(PipelineError):
    """A service raised in a replay. A cluster's container would have ended there, and its log with it."""

    def __init__(self, which: str, what: str, position: int) -> None:
        super().__init__(f"{which} raised at position {position}: {what}")
        self.which, self.what, self.position = which, what, position

    def __reduce__(self) -> tuple[type[ServiceRaisedError], tuple[str, str, int]]:
        return (type(self), (self.which, self.what, self.position))


def guarded(which: str, position: int, call: Callable[[], T]) -> T:
    """Guard calls of a service's code: any exception becomes a ServiceRaisedError."""
    try:
        return call()
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno} in {place.name})"
        raise ServiceRaisedError(which, what, position) from error


def open_cluster(
    service: str, stretch: Stretch, which: str = "service", before: SnapshotState | None = None
) -> ReplayCluster:
    """Return the service as it is at the beginning of a stretch of the log; `before`: the snapshot, if it was read."""
    make = make_service(service)
    if before is None and stretch.before is not None:
        before = read_snapshot(stretch.before)
    return guarded(which, stretch.start, lambda: ReplayCluster(make, before, stretch.time_unit, stretch.skips))


class StretchRun:
    """One run of a service, and of a baseline if there is one, over a stretch."""

    def __init__(self, service: str, baseline: str | None, stretch: Stretch) -> None:
        self._names = (service, baseline)
        self._stretch = stretch
        self._offers = OfferCheck()
        self._digest = hashlib.blake2b(digest_size=16)
        self._record: dict[str, Any] | None = None
        self.records = self.emitted = 0
        self.first: dict[str, Any] | None = None
        self.state = NO_SNAPSHOT
        self.reason = ""
        self._feeds = RecordedFeeds({}, (), stretch.start)
        self._hashes = RecordedHashes()
        self._answers = 0

    def run(self) -> dict[str, Any]:
        """Return the facts of the stretch. Raises PipelineError only for what is wrong with the command."""
        try:
            self._execute()
        except ServiceRaisedError as error:
            if self.first is None:
                self.first = described(self._record, error.position, f"the {error.which} raised", None, error.what)
        except (CorruptRecordingError, VersionChangesError) as error:
            self.reason = str(error)
        return self._facts()

    def _execute(self) -> None:
        service, baseline = self._names
        before = read_snapshot(self._stretch.before) if self._stretch.before is not None else None
        self._feeds = RecordedFeeds(self._stretch.feeds, before.feeds if before else (), self._stretch.start)
        cluster = open_cluster(service, self._stretch, before=before)
        other = open_cluster(baseline, self._stretch, "baseline") if baseline else None
        for record in self._stretch.records():
            self._record = record
            self.records += 1
            self._compare(record, cluster, other)
        self._record = None
        if self._stretch.after is not None:
            actual = guarded("service", self._stretch.end, cluster.take_snapshot)
            self._compare_snapshots(read_snapshot(self._stretch.after), actual)

    def _compare_snapshots(self, expected: SnapshotState, actual: SnapshotState) -> None:
        self.state = compare_state(expected, actual)
        if self.first is None:
            self._answers, self.first = compare_answers(expected, actual)
        if self.first is None and self.state != AGREES:
            self.first = described(None, self._stretch.end, f"snapshot: {self.state}", None, None)

    def _compare(self, record: dict[str, Any], cluster: ReplayCluster, other: ReplayCluster | None) -> None:
        effects = guarded("service", record["position"], lambda: cluster.execute(record))
        theirs = guarded("baseline", record["position"], lambda: other.execute(record)) if other else None
        self.emitted += len(effects)
        for effect in effects:
            self._digest.update(f"{record['position']} {effect.describe()}\n".encode())
        if self.first is None:
            self.first = self._hash_difference(record, cluster) or self._difference(record, effects, theirs)
        self._offers.note(effects)

    def _difference(
        self, record: dict[str, Any], effects: list[Effect], theirs: list[Effect] | None
    ) -> dict[str, Any] | None:
        """Return where this record shows that another service ran: against the log, then the baseline."""
        if record["kind"] == "message" and record["session_id"] < 0:
            expected = self._offers.unexpected(record["payload"])
            if expected is not None:
                what = "message of the service in the log"
                return described(record, record["position"], what, record["payload"].hex(), expected.hex())
        feed = self._feeds.difference(record["position"], effects)
        if feed is not None:
            topic, recorded, published = feed
            return described(record, record["position"], f"what was published to {topic}", recorded, published)
        pair = lockstep(theirs, effects) if theirs is not None else None
        if pair is None:
            return None
        left, right = (effect and effect.describe() for effect in pair)
        return described(record, record["position"], "what the service did", left, right)

    def _hash_difference(self, record: dict[str, Any], cluster: ReplayCluster) -> dict[str, Any] | None:
        if record["kind"] != "state_hash":
            return None
        found = guarded("service", record["position"], lambda: self._hashes.look(record, cluster.service))
        if found is None:
            return None
        return described(None, found.position, "hash of the state", found.recorded, found.replayed)

    def _facts(self) -> dict[str, Any]:
        checked_by = [
            name for name, is_so in (("snapshot", self.state == AGREES), ("baseline", self._names[1])) if is_so
        ]
        verdict = DIFFERS if self.first else AGREES if checked_by and not self.reason else NOT_CHECKED
        if verdict == NOT_CHECKED and not self.reason:
            known = self._hashes.compared_position
            upto = f"the hashes of its state agree up to position {known}; " if known >= 0 else ""
            self.reason = f"{upto}no snapshot at its end, and no baseline"
        return {
            "start": self._stretch.start, "end": self._stretch.end, "verdict": verdict,
            "checked_by": checked_by if verdict == AGREES else [], "reason": self.reason, "records": self.records,
            "emitted": self.emitted, "emitted_hash": self._digest.hexdigest(), "offers_in_log": self._offers.matched,
            "published_compared": self._feeds.compared, "answers_compared": self._answers,
            "hashes_compared": self._hashes.compared,
            "state": self.state, "first_difference": self.first,
        }  # fmt: skip


def run_stretch(service: str, baseline: str | None, stretch: Stretch) -> dict[str, Any]:
    """One stretch: its verdict, and the first thing that differs."""
    return StretchRun(service, baseline, stretch).run()


def described(
    record: dict[str, Any] | None, position: int, what: str, expected: str | None, actual: str | None
) -> dict[str, Any]:
    """Return a difference as plain values."""
    shown = record and {
        "kind": record["kind"], "session_id": record["session_id"], "cluster_time": record["cluster_time"],
        "payload": record["payload"].hex(),
    }  # fmt: skip
    return {"position": position, "what": what, "expected": expected, "actual": actual, "record": shown}


def compare_answers(expected: SnapshotState, actual: SnapshotState) -> tuple[int, dict[str, Any] | None]:
    """How many answers to requests the snapshot has that the replay has given too, and the first that differs.

    A snapshot keeps the answers that clients have not confirmed. Who is forgotten when is up to the cluster's limits,
    which the log does not tell; so identities and numbers that only one side has are passed over.
    """
    given = _answers(actual)
    pairs = [(answer, given[key]) for key, answer in sorted(_answers(expected).items()) if key in given]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if not differing:
        return len(pairs), None
    left, right = min(differing)
    shown = [f"status {status}: {payload.hex()}" for _, status, payload in (left, right)]
    return len(pairs), described(None, left[0], "answer to a request", *shown)


def _answers(state: SnapshotState) -> dict[tuple[bytes, int], tuple[int, int, bytes]]:
    """Return log position, status and payload of each answer, by identity and number."""
    return {(entry.identity, answer[0]): answer[1:] for entry in state.requests for answer in entry.answers}


def compare_state(expected: SnapshotState, actual: SnapshotState) -> str:
    """Return `agrees`, or how the state differs from the snapshot at the end of the stretch."""
    if expected.sessions != actual.sessions:
        first, second = ([entry[0] for entry in state.sessions] for state in (expected, actual))
        return f"sessions differ: {first} and {second}"
    if expected.timers != actual.timers:
        return f"timers differ: {list(expected.timers)} and {list(actual.timers)}"
    if expected.data == actual.data:
        return AGREES
    if len(expected.data) != len(actual.data):
        return f"state has {len(actual.data)} bytes, the snapshot {len(expected.data)}"
    place = next(index for index, (a, b) in enumerate(zip(expected.data, actual.data, strict=True)) if a != b)
    return f"state differs at byte {place}: {expected.data[place]} and {actual.data[place]}"


def verdict_of(results: list[dict[str, Any]]) -> dict[str, Any]:
    """`status` of all stretches together, `coverage` in records, and the first difference by position."""
    differences = [result["first_difference"] for result in results if result["first_difference"]]
    records = {
        name: sum(result["records"] for result in results if result["verdict"] == name)
        for name in (AGREES, DIFFERS, NOT_CHECKED)
    }
    verdicts = {result["verdict"] for result in results}
    if differences:
        status = DIFFERS
    elif verdicts == {AGREES}:
        status = AGREES
    else:
        status = PARTLY if AGREES in verdicts else NOT_CHECKED
    return {
        "status": status,
        "coverage": {
            "records": sum(records.values()),
            **{name.replace(" ", "_"): count for name, count in records.items()},
        },
        "first_difference": min(differences, key=lambda difference: difference["position"], default=None),
    }
