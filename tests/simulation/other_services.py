"""The services 1, 2, ... of simulated members that run several: each has a state, timers and messages of its own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ordo.runtime.native.cluster_time import TimeUnit
from ordo.service_api.service import Cluster, ClusteredService
from tests.simulation.operations import later
from tests.simulation.service import chain, digest_of

NAMES = b"ABCDEFGHI"
TIMER_IDS = 5
"""Services share correlation ids, with each other and with service 0: each has timers of its own all the same."""


class OtherObserver(Protocol):
    """Hears what these services do."""

    def on_other_executed(
        self, member_id: int, service_id: int, position: int, digest: str, version: int, wrong: str
    ) -> None:
        """One record, executed by code of `version`; `digest` covers all records so far. `wrong`: what must not have
        happened, else ''."""

    def on_client_message(self, service_id: int, position: int) -> None:
        """A message of a client is executed."""

    def on_other_started(self, member_id: int, service_id: int, position: int, digest: str) -> None:
        """A service was started, from a snapshot at `position` or from 0."""


@dataclass
class OtherState:
    """All that a snapshot holds."""

    digest: str = ""
    timers: dict[int, int] = field(default_factory=dict)
    messages_sent: int = 0
    messages_received: int = 0

    def encode(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> OtherState:
        values = json.loads(data)
        values["timers"] = {int(key): value for key, value in values["timers"].items()}
        return cls(**values)


class OtherService(ClusteredService):
    """One instance for each life of a member. What it does follows from the records alone."""

    def __init__(self, member_id: int, service_id: int, observer: OtherObserver, version: int = 1) -> None:
        self.member_id = member_id
        self.service_id = service_id
        self.version = version
        self.state = OtherState()
        self.can_fork = (member_id + service_id) % 3 < 2
        self._observer = observer
        self._prefix = NAMES[service_id : service_id + 1]
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def on_start(self, cluster: Cluster, snapshot: Any) -> None:
        self._cluster = cluster
        if snapshot is not None:
            self.state = OtherState.decode(snapshot.read())
        self._observer.on_other_started(self.member_id, self.service_id, cluster.log_position, self.state.digest)

    def _done(self, position: int, text: str, payload: bytes = b"", wrong: str = "") -> None:
        digest = self.state.digest = chain(self.state.digest, f"{position} {self.version} {text} {wrong}", payload)
        self._observer.on_other_executed(self.member_id, self.service_id, position, digest, self.version, wrong)

    def on_session_open(self, session: Any, timestamp: int) -> None:
        self._done(self.cluster.log_position, f"open {session.id}")

    def on_session_close(self, session: Any, timestamp: int, close_reason: Any) -> None:
        self._done(self.cluster.log_position, f"close {session.id}")

    def on_time_unit(self, former: TimeUnit, unit: TimeUnit) -> None:
        timers = self.state.timers
        timers.update({one: former.rescale(deadline, unit) for one, deadline in timers.items()})

    def on_new_leadership_term(self, event: Any) -> None:
        self._done(event.log_position, f"term {event.leadership_term_id}")

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> bytes | None:
        if session is None:
            self._on_service_message(payload, header.position)
            return None
        self._observer.on_client_message(self.service_id, header.position)
        self._done(header.position, f"message {session.id}", payload)
        draw = int(digest_of(self._prefix + payload + header.position.to_bytes(8, "little")), 16)
        if draw % 5 == 0:
            timer_id, deadline = draw // 5 % TIMER_IDS, later(self.cluster, timestamp, draw // 100 % 400)
            self.state.timers[timer_id] = deadline
            self.cluster.schedule_timer(timer_id, deadline)
        elif draw % 5 == 1:
            timer_id = draw // 5 % TIMER_IDS
            self.state.timers.pop(timer_id, None)
            self.cluster.cancel_timer(timer_id)
        elif draw % 5 == 2:
            self.state.messages_sent += 1
            self.cluster.offer(self._prefix + self.state.messages_sent.to_bytes(8, "little"))
        return b"nobody hears this"

    def _on_service_message(self, payload: bytes, position: int) -> None:
        wrong = ""
        if payload[:1] == self._prefix and len(payload) == 9:
            number, expected = int.from_bytes(payload[1:], "little"), self.state.messages_received + 1
            self.state.messages_received = number
            if number != expected or number > self.state.messages_sent:
                wrong = f"own message {number}, expected {expected} of {self.state.messages_sent} sent"
        self._done(position, "service message", payload, wrong)

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        deadline, wrong = self.state.timers.pop(correlation_id, None), ""
        if deadline is None or timestamp < deadline:
            wrong = f"timer {correlation_id} fired at {timestamp}, and its deadline is {deadline}"
        self._done(self.cluster.log_position, f"timer {correlation_id}", wrong=wrong)

    def state_hash(self) -> bytes:
        return self.state.encode()

    def on_take_snapshot(self, writer: Any) -> None:
        writer.write(self.state.encode())
