"""How long `ordo debug bisect` takes over a long log: `python -m benchmarks.bisect_log [RECORDS]`.

The log is generated, 96 bytes a record. The service counts messages and payload bytes, and miscounts at one record in
the last tenth of the log, which must be the one that is found.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from ordo import ClientSession, Cluster, ClusteredService, Header, SnapshotReader, SnapshotWriter
from ordo.debugging.bisection import Search, bisect
from ordo.debugging.replaying.code import code_of
from ordo.debugging.replaying.recorded_log import RecordedLog
from ordo.debugging.replaying.timeline import Timeline
from ordo.pipeline.generate import LogShape, generate_log
from ordo.service_api.service import Service

RECORDS_DEFAULT = 10_000_000


class Counting(ClusteredService):
    """Counts, and miscounts once."""

    wrong_count = 0

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.count, self.length, self.wrong = map(int, snapshot.read().split()) if snapshot else (0, 0, 0)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        self.count += 1
        self.length += len(payload)
        if self.count == self.wrong_count:
            self.wrong = header.position
        return None

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(b"%d %d %d" % (self.count, self.length, self.wrong))


def counts_right(service: Service) -> bool:
    assert isinstance(service, Counting)
    return not service.wrong


def main(records: int) -> None:
    Counting.wrong_count = records * 97 // 100
    with tempfile.TemporaryDirectory(prefix="ordo-bisect-") as folder:
        generate_log(folder, LogShape(messages=records, payload_min=16, payload_max=32))
        log, code = RecordedLog(Path(folder)), code_of(Counting)
        started_s, cpu_s = time.perf_counter(), time.process_time()
        found = bisect(Search(log, code, counts_right), 0, log.end, uses_snapshots=True)
        passed_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
        print(f"bisect: {found.records} records in {passed_s:.1f} s ({cpu_s:.1f} s of CPU), position {found.position}")
        timeline = Timeline(log, code)
        started_s = time.perf_counter()
        timeline.go(found.position or 0)
        print(f"replay: to there in {time.perf_counter() - started_s:.1f} s")
        assert getattr(timeline.execution.service, "wrong", None) == found.position, "another record was found"
        for _ in range(3):
            started_s = time.perf_counter()
            timeline.back()
            print(f"one record back: {time.perf_counter() - started_s:.3f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS_DEFAULT)
