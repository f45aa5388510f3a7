"""Services with a large state in Python objects: what `ordo bench snapshot` takes snapshots of."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, Cluster, ClusteredService
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

STATE_MB_VARIABLE = "ORDO_BENCH_STATE_MB"
FORKS_VARIABLE = "ORDO_BENCH_FORKS"
"""A file to which every fork adds a line: how long the process stood still for it, in ns."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BATCH = 10_000
VALUE_BYTES = 160
_ROW = struct.Struct("<q")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


class ForkedState(ClusteredService):
    """Echoes messages, and changes a row of its state with each."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, bytes]] = {}
        self._fork_begun_ns = 0
        os.register_at_fork(before=self._note_fork, after_in_parent=self._write_fork)

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        end_bytes = resident_bytes() + int(os.environ[STATE_MB_VARIABLE]) * 1024 * 1024
        while resident_bytes() < end_bytes:
            first = len(self.rows)
            for number in range(first, first + BATCH):
                self.rows[number] = number, number.to_bytes(8, "little") * (VALUE_BYTES // 8)

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        row = header.position // 32 * 7919 % len(self.rows)
        self.rows[row] = header.position, bytes(VALUE_BYTES)
        if session is not None:
            session.offer(payload)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        for number, (position, value) in self.rows.items():
            writer.write(_ROW.pack(number) + _ROW.pack(position) + value)

    def _note_fork(self) -> None:
        self._fork_begun_ns = time.monotonic_ns()

    def _write_fork(self) -> None:
        taken_ns = time.monotonic_ns() - self._fork_begun_ns
        with open(os.environ[FORKS_VARIABLE], "a") as file:
            file.write(f"{taken_ns}\n")


class StandingState(ForkedState):
    """The same, which stands still for its snapshots."""

    can_fork = False
