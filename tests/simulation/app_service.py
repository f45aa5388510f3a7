"""The application under test: what it writes, and what all that it wrote must come to."""

from __future__ import annotations

import struct
from typing import Any

from ordo.applications.outputs import group_identity
from ordo.service_api.service import Cluster, ClusteredService
from tests.simulation.operations import decode_request, later

GROUP = "simulated"
GROUP_IDENTITY = group_identity(GROUP)
TIMER_DELAY_MS = 40
OTHER_EACH = 3
REPEATED_AFTER = 3
FOR_RECORD, FOR_TIMER = range(2)
_OUTPUT = struct.Struct("<qBqqQ")
_COUNT = struct.Struct("<q")


def decode_count(payload: bytes) -> int:
    """What the application answers to a query: how many requests of clients it has executed."""
    (count,) = _COUNT.unpack(payload)
    return int(count)


class AppOutput:
    """What the application writes: a count, the request or the timer it answers, and a hash over all it has seen."""

    def __init__(self, count: int, kind: int, first: int, second: int, state: int) -> None:
        self.count, self.kind, self.first, self.second, self.state = count, kind, first, second, state

    def encode(self) -> bytes:
        return _OUTPUT.pack(self.count, self.kind, self.first, self.second, self.state)

    @classmethod
    def decode(cls, payload: bytes) -> AppOutput:
        return cls(*_OUTPUT.unpack(payload))

    def describe(self) -> str:
        return f"output {self.count} {'timer' if self.kind == FOR_TIMER else 'record'} {self.first} {self.second}"


class CountingService(ClusteredService):
    """One output for each request of a client, and one for each timer, which every seventh request sets."""

    def __init__(self) -> None:
        self.count = self.requests = self.state = 0

    def on_start(self, cluster: Cluster, snapshot: Any) -> None:
        self.cluster = cluster
        if snapshot is not None:
            self.count, self.requests, self.state = struct.unpack("<qqQ", snapshot.read())

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        self._see(b"message", timestamp, header.position)
        request = None if session is None else decode_request(payload)
        if request is None:
            return
        self.requests += 1
        self._write(FOR_RECORD, request.client, request.number)
        if self.requests % 7 == 0:
            self.cluster.schedule_timer(self.requests % 5, later(self.cluster, timestamp, TIMER_DELAY_MS))

    def on_session_open(self, session: Any, timestamp: int) -> None:
        self._see(b"open", session.id, timestamp)

    def on_session_close(self, session: Any, timestamp: int, close_reason: Any) -> None:
        self._see(b"close", session.id, timestamp)

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self._see(b"timer", correlation_id, timestamp)
        self._write(FOR_TIMER, correlation_id, timestamp)

    def _see(self, *what: object) -> None:
        for one in what:
            for byte in repr(one).encode():
                self.state = (self.state * 1_000_003 ^ byte) & 0xFFFF_FFFF_FFFF_FFFF

    def _write(self, kind: int, first: int, second: int) -> None:
        self.count += 1
        self.cluster.offer(AppOutput(self.count, kind, first, second, self.state).encode())

    def on_query(self, payload: bytes) -> bytes:
        return _COUNT.pack(self.requests)

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(struct.pack("<qqQ", self.count, self.requests, self.state))


class RepeatingService(CountingService):
    """Each output has an id, and is written again, with its id, after some others: members execute the first alone."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        """The last ones."""

    def on_start(self, cluster: Cluster, snapshot: Any) -> None:
        super().on_start(cluster, None)
        if snapshot is not None:
            state = snapshot.read()
            self.count, self.requests, self.state = struct.unpack_from("<qqQ", state)
            rest = state[struct.calcsize("<qqQ") :]
            self.written = [rest[at : at + _OUTPUT.size] for at in range(0, len(rest), _OUTPUT.size)]

    def _write(self, kind: int, first: int, second: int) -> None:
        self.count += 1
        self.written.append(AppOutput(self.count, kind, first, second, self.state).encode())
        self._offer(self.written[-1])
        if len(self.written) > REPEATED_AFTER:
            self._offer(self.written.pop(0))

    def _offer(self, payload: bytes) -> None:
        self.cluster.offer(payload, id=b"output %d" % AppOutput.decode(payload).count)

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(struct.pack("<qqQ", self.count, self.requests, self.state) + b"".join(self.written))


class NextCountingService(CountingService):
    """The next version of the code: it sees the log otherwise."""

    def _see(self, *what: object) -> None:
        super()._see("next", *what)


class OtherCountingService(CountingService):
    """Other code, for a canary: every third output says that it has seen something else."""

    def _write(self, kind: int, first: int, second: int) -> None:
        self.count += 1
        state = 0 if self.count % OTHER_EACH == 0 else self.state
        self.cluster.offer(AppOutput(self.count, kind, first, second, state).encode())


def check_outputs(texts: list[str]) -> str:
    """What is wrong with all that members have executed, in order: every request of a client must have one output, in
    the same order. '' when nothing is."""
    requests = [text.split() for text in texts if " client=" in text]
    asked = [(one[2].partition("=")[2], one[3].partition("=")[2]) for one in requests]
    outputs = [text.split() for text in texts if text.startswith("output ")]
    answered = [(one[3], one[4]) for one in outputs if one[2] == "record"]
    if asked == answered:
        return ""
    index = next((i for i, pair in enumerate(zip(asked, answered, strict=False)) if pair[0] != pair[1]), len(answered))
    return (
        f"application: {len(asked)} requests, {len(answered)} outputs to them, which differ at {index}: "
        f"asked={asked[index : index + 1]} answered={answered[index : index + 1]}"
    )
