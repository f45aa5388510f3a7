"""Makes spans of a node's and its service's timestamps of sampled requests, and sends them to a collector."""

from __future__ import annotations

import struct
import sys
from collections import OrderedDict
from threading import Event
from typing import TypeVar

from ordo.cluster.monitoring.observation import Subject
from ordo.cluster.wire.counters.traces import FOLLOWER_POINTS, LOG_POINTS, SERVICE_POINTS, find_traces
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.reporting.spans import Span, SpanExporter, make_trace_id
from ordo.transport.control.ring import ManyToOneRing

DRAIN_INTERVAL_S = 0.2
RECORDS_PER_DRAIN = 4096
HALVES_MAX = 4096
"""So many requests wait for their other half; the oldest goes first. The log's half of a repeated request has none, nor
has the service's half of one that a member executes again after a start."""
_LOG = struct.Struct("<7q")
_FOLLOWER = struct.Struct("<5q")
_SERVICE = struct.Struct("<5q16s")

Key = tuple[int, int]
Points = tuple[int, ...]
Half = TypeVar("Half")


class TraceJoiner:
    """Puts the two halves of a request together: from the consensus module, and from the service."""

    def __init__(self, member_id: int) -> None:
        self._member_id = member_id
        self.epoch_offset_ns = 0  # wall clock less monotonic time
        self._logs: OrderedDict[Key, Points] = OrderedDict()
        """Where this member led."""
        self._followed: OrderedDict[Key, Points] = OrderedDict()
        self._services: OrderedDict[Key, tuple[Points, bytes]] = OrderedDict()
        self.spans: list[Span] = []

    def on_record(self, type_id: int, payload: bytes) -> None:
        """Take a record of the ring."""
        if type_id == LOG_POINTS:
            open_position, number, *times = _LOG.unpack(payload)
            _keep(self._logs, (open_position, number), tuple(times))
        elif type_id == FOLLOWER_POINTS:
            open_position, number, *times = _FOLLOWER.unpack(payload)
            _keep(self._followed, (open_position, number), tuple(times))
        elif type_id == SERVICE_POINTS:
            open_position, number, begun_ns, ended_ns, sent_ns, identity = _SERVICE.unpack(payload)
            _keep(self._services, (open_position, number), ((begun_ns, ended_ns, sent_ns), identity))
        else:
            return
        key = open_position, number
        if key in self._services and key in self._logs:
            self._join_led(key)
        elif key in self._services and key in self._followed:
            self._join_followed(key)

    def _join_led(self, key: Key) -> None:
        cycle_ns, taken_ns, left_ns, appended_ns, committed_ns = self._logs.pop(key)
        (begun_ns, ended_ns, sent_ns), identity = self._services.pop(key)
        stages = {
            "ingress": (cycle_ns, taken_ns),
            "send": (taken_ns, left_ns),
            "append": (taken_ns, appended_ns),
            "commit": (taken_ns, committed_ns),
            "service": (begun_ns, ended_ns),
            "reply": (ended_ns, sent_ns),
        }
        self._add(identity, key, stages, None)

    def _join_followed(self, key: Key) -> None:
        cycle_ns, durable_ns, acknowledged_ns = self._followed.pop(key)
        _, identity = self._services.pop(key)
        stages = {"record": (cycle_ns, durable_ns), "acknowledge": (durable_ns, acknowledged_ns)}
        self._add(identity, key, stages, self._member_id)

    def _add(self, identity: bytes, key: Key, stages: dict[str, tuple[int, int]], member_id: int | None) -> None:
        trace_id, offset_ns = make_trace_id(identity, *key), self.epoch_offset_ns
        attributes = {"ordo.request": key[1]}
        for name, (start_ns, end_ns) in stages.items():
            self.spans.append(Span(trace_id, name, start_ns + offset_ns, end_ns + offset_ns, attributes, member_id))

    def take(self) -> list[Span]:
        spans, self.spans = self.spans, []
        return spans


def _keep(halves: OrderedDict[Key, Half], key: Key, half: Half) -> None:
    halves[key] = half
    if len(halves) > HALVES_MAX:
        halves.popitem(last=False)


class TraceExport:
    """Drains the ring of one node, for as long as the process runs."""

    def __init__(self, endpoint: str, subject: Subject) -> None:
        self._clock = SystemClock()
        self._subject = subject
        self._endpoint = endpoint
        resource: dict[str, int | str] = {"ordo.cluster": subject.cluster_id, "ordo.member": subject.member_id}
        self._exporter = SpanExporter(endpoint, "ordo-node", resource)
        self._joiner = TraceJoiner(subject.member_id)
        self._has_failed = False

    def run(self) -> None:
        """Never returns."""
        subject, never = self._subject, Event()
        ring: ManyToOneRing | None = None  # the process ends with its node, and so with this ring
        while not never.wait(DRAIN_INTERVAL_S):
            if ring is None:
                ring = find_traces(FileMemoryProvider(), str(subject.aeron_dir), subject.cluster_id)
            if ring is not None:
                self._joiner.epoch_offset_ns = self._clock.epoch_ns() - self._clock.now()
                ring.read(self._joiner.on_record, RECORDS_PER_DRAIN)
            if spans := self._joiner.take():
                self.export(spans)

    def export(self, spans: list[Span]) -> None:
        """Send the spans; log once when a collector does not take them, and once when it does again."""
        has_failed = not self._exporter.export(spans)
        if has_failed != self._has_failed:
            what = "does not take spans; those of now are lost" if has_failed else "takes spans again"
            print(f"ordo: tracing: {self._endpoint} {what}", file=sys.stderr)
        self._has_failed = has_failed
