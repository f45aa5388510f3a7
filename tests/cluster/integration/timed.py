"""A service that says what it knows of time: the unit, the time of each message, and when each timer was fired."""

from __future__ import annotations

import json

from ordo import ClientSession, Cluster, ClusteredService, Header, SnapshotReader, SnapshotWriter, TimeUnit


class Timed(ClusteredService):
    """A message is a number of nanoseconds, after which a timer is due. The answer to b"?" has all timers."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self.cluster = cluster
        self.timers: list[list[int]] = json.loads(b"".join(snapshot)) if snapshot is not None else []
        """Deadline, and the timestamp of its event, 0 until then."""

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        assert timestamp == self.cluster.time
        unit = self.cluster.time_unit
        if payload == b"?" or unit is None:
            return json.dumps(self.timers).encode()
        deadline = timestamp + unit.duration(nanoseconds=int(payload))
        self.cluster.schedule_timer(len(self.timers), deadline)
        self.timers.append([deadline, 0])
        return json.dumps({"unit": unit.name, "timestamp": timestamp}).encode()

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.timers[correlation_id][1] = timestamp

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        self.timers = [[former.rescale(one, unit) for one in timer] for timer in self.timers]

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        writer.write(json.dumps(self.timers).encode())
