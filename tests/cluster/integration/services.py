"""The service of the tests on real processes: a ledger that shows every loss, repetition and change of order."""

from __future__ import annotations

import os
import pickle
import time
from collections import Counter, deque
from typing import Any

import structlog

from ordo.bench.loads.echo import Echo
from ordo.service_api.cluster import CloseReason
from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, Cluster, ClusteredService, Role
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter
from tests.cluster.integration.protocol import (
    ANSWER,
    ANSWERS_KEPT,
    COUNT,
    EMPTY_HASH,
    REPORT_EVENT,
    REQUEST,
    Kind,
    Status,
    chain,
)

OFFER_TIMEOUT_S = 2.0
ROLE_EVENT = "ledger.role"
PID_EVENT = "ledger.started"
HASH_EVENT = "ledger.hash"
COPY_EVENT = "ledger.copied"
DIFFERENT_MEMBER = 2


class Ledger(ClusteredService):
    """Applies an entry only when it is the next one of its writer, and answers repetitions as it did the first time.

    Keeps a hash over everything in the order it was applied, and one for each writer. The variables below make it
    misbehave when it applies entry number N; `LEDGER_MEMBER` limits them to one member.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total_hash = EMPTY_HASH
        self.writer_hashes: dict[int, bytes] = {}
        self.sequences: dict[int, int] = {}
        self.counts: dict[int, deque[int]] = {}
        self._actions: dict[int, str] = {}
        self._load_s = 0.0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self._cluster = cluster
        self._log = structlog.get_logger().bind(member_id=cluster.member_id)
        self._read_environment()
        if snapshot is not None:
            self._load(pickle.loads(snapshot.read()))
            busy_until(time.monotonic() + self._load_s)
        self._log.info(PID_EVENT, pid=os.getpid(), count=self.count, position=cluster.log_position)

    def _read_environment(self) -> None:
        if os.environ.get("LEDGER_MEMBER", str(self._cluster.member_id)) != str(self._cluster.member_id):
            return
        for action in ("sleep", "compute", "raise", "exit"):
            if (at := os.environ.get(f"LEDGER_{action.upper()}_AT")) is not None:
                self._actions[int(at)] = action
        self._load_s = float(os.environ.get("LEDGER_LOAD_S", "0"))

    def on_role_change(self, role: Role) -> None:
        self._log.info(ROLE_EVENT, role=role.name)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        kind, writer_id, sequence = REQUEST.unpack_from(payload)
        if kind == Kind.REPORT:
            self._report(sequence, header.position)
            answer = ANSWER.pack(Status.REPORTED, writer_id, sequence, self.count)
        elif kind == Kind.RESET:
            self._load((0, EMPTY_HASH, {}, {}, {}))
            answer = ANSWER.pack(Status.REPORTED, writer_id, sequence, self.count)
        else:
            answer = self.append(payload)
        if session is not None:
            session.offer(answer)
        return None

    def append(self, payload: bytes) -> bytes:
        """Applies an entry if it is its writer's next one; the answer."""
        _, writer_id, sequence = REQUEST.unpack_from(payload)
        if sequence == self.sequences.get(writer_id, 0) + 1:
            self._apply(writer_id, payload)
        return self._answer(writer_id, sequence)

    def _apply(self, writer_id: int, payload: bytes) -> None:
        self.count += 1
        self.sequences[writer_id] = self.sequences.get(writer_id, 0) + 1
        self.total_hash = chain(self.total_hash, payload)
        self.writer_hashes[writer_id] = chain(self.writer_hashes.get(writer_id, EMPTY_HASH), payload)
        self.counts.setdefault(writer_id, deque(maxlen=ANSWERS_KEPT)).append(self.count)
        if self.count in self._actions:
            self._misbehave(self._actions[self.count])

    def _misbehave(self, action: str) -> None:
        pause_s = float(os.environ.get("LEDGER_PAUSE_S", "5"))
        if action == "sleep":
            time.sleep(pause_s)
        elif action == "compute":
            busy_until(time.monotonic() + pause_s)
        elif action == "exit":
            os._exit(9)
        else:
            raise RuntimeError(f"the ledger was told to fail at entry {self.count}")

    def _answer(self, writer_id: int, sequence: int) -> bytes:
        last = self.sequences.get(writer_id, 0)
        counts = self.counts.get(writer_id, deque())
        if sequence > last:
            return ANSWER.pack(Status.GAP, writer_id, last + 1, self.count)
        return ANSWER.pack(Status.APPLIED, writer_id, sequence, counts[sequence - last - 1])

    def _report(self, report_id: int, position: int) -> None:
        self._log.info(
            REPORT_EVENT,
            report_id=report_id,
            count=self.count,
            hash=self.total_hash.hex(),
            writers={str(key): value.hex() for key, value in sorted(self.writer_hashes.items())},
            position=position,
        )

    def on_query(self, payload: bytes) -> bytes:
        if payload == b"raise":
            raise RuntimeError("the ledger was told to fail at a query")
        return COUNT.pack(self.count)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(pickle.dumps((self.count, self.total_hash, self.writer_hashes, self.sequences, self.counts)))

    def _load(self, state: Any) -> None:
        self.count, self.total_hash, self.writer_hashes, self.sequences, self.counts = state


class CountingEcho(Echo):
    """Says of each session how many of its messages it has executed, and whether it was closed: b"executed 4711"."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self._counts: Counter[bytes] = Counter()

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        super().on_session_message(session, timestamp, payload, header)
        self._counts[b"executed %d" % session.id if session is not None else b""] += 1

    def on_session_close(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
        self._counts[b"closed %d" % session.id] += 1

    def on_query(self, payload: bytes) -> bytes:
        return b"%d" % self._counts[payload]


class Different(Ledger):
    """A ledger of which one member's state is not that of the others; each tells how strings hash in its process."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        super().on_start(cluster, None)
        self._log.info(HASH_EVENT, text_hash=hash("ordo"))

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"different" if self._cluster.member_id == DIFFERENT_MEMBER else b"alike")


class SlowCopies(Ledger):
    """A ledger whose snapshots are not written before the file that `LEDGER_GATE` names is there."""

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        self._log.info(COPY_EVENT, pid=os.getpid(), parent_pid=os.getppid())
        while not os.path.exists(os.environ["LEDGER_GATE"]):
            time.sleep(0.01)
        super().on_take_snapshot(writer)


class SlowFollowers(SlowCopies):
    """Of which only the leader's snapshot is written at once."""

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        if self._cluster.role is Role.LEADER:
            Ledger.on_take_snapshot(self, writer)
        else:
            super().on_take_snapshot(writer)


def busy_until(deadline_s: float) -> None:
    """Computes, without giving the processor away."""
    while time.monotonic() < deadline_s:
        pass
