"""A node's counters as Prometheus metrics."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from ordo.cluster.monitoring.metric_names import (
    NANOSECONDS,
    NODE_METRICS,
    OWN_METRICS,
    REFUSED_METRIC,
    REFUSED_REASONS,
    REFUSED_TYPE,
    STAGE_METRICS,
    SYSTEM_METRICS,
    SYSTEM_TYPE,
    Kind,
    Metric,
)
from ordo.cluster.monitoring.observation import (
    READY_HEARTBEAT_MS,
    Observation,
    Subject,
    free_bytes,
    log_position,
    observe,
)
from ordo.cluster.wire.counters.counter_types import CounterType, ModuleState, NodeRole
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.kernel_clock import read_clock_quality
from ordo.runtime.version import VERSION

CONTENT_TYPE = CONTENT_TYPE_LATEST
LABELS = ("cluster", "member")
_KEY = struct.Struct("<i")


class NodeCollector(Collector):
    """Looks at the node at every scrape; keeps nothing between two."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._labels = [str(subject.cluster_id), str(subject.member_id)]

    def describe(self) -> list[Family]:
        """Return nothing, so that the registry does not collect once at registration."""
        return []

    def collect(self) -> Iterator[Family]:
        now_ms = SystemClock().epoch_ms()
        found = observe(self._subject, now_ms, wants_all=True)
        is_up = found.heartbeat_age_ms is not None and found.heartbeat_age_ms <= READY_HEARTBEAT_MS
        is_ready = not found.why_not_ready(self._subject.disk_free_bytes_min)
        yield self._one(OWN_METRICS["up"], is_up)
        yield self._one(OWN_METRICS["ready"], is_ready)
        yield self._one(OWN_METRICS["quorum"], is_up and found.has_quorum)
        yield self._one(OWN_METRICS["data_free"], found.data_free_bytes)
        yield self._one(OWN_METRICS["memory_free"], free_bytes(self._subject.aeron_dir))
        yield self._one(OWN_METRICS["disk_mark"], self._subject.disk_free_bytes_min)
        yield self._one(OWN_METRICS["clock"], now_ms / 1000)
        yield from self._of_clock()
        yield self._info()
        if is_up:
            yield from self._of_node(found)
            yield from self._of_driver(found)
            yield from self._of_stages(found)

    def _of_clock(self) -> Iterator[Family]:
        """Ask the kernel, which tells whether the node is up or not."""
        told = read_clock_quality()
        yield self._one(OWN_METRICS["clock_synchronized"], -1 if told is None else told.is_synchronized)
        yield self._one(OWN_METRICS["clock_offset"], math.nan if told is None else told.offset_ns)
        yield self._one(OWN_METRICS["clock_error_estimate"], math.nan if told is None else told.error_estimate_ns)
        yield self._one(OWN_METRICS["clock_error_bound"], math.nan if told is None else told.error_bound_ns)
        yield self._one(OWN_METRICS["clock_error_limit"], self._subject.clock_error_ns_max)

    def _of_node(self, found: Observation) -> Iterator[Family]:
        values = found.values
        for counter_type, metric in NODE_METRICS.items():
            if counter_type in values:
                yield self._one(metric, values[counter_type])
        for name, kind, counter_type in (
            ("state", ModuleState, CounterType.MODULE_STATE),
            ("role", NodeRole, CounterType.NODE_ROLE),
        ):
            family = GaugeMetricFamily(OWN_METRICS[name].name, OWN_METRICS[name].help, labels=[*LABELS, name])
            for one in kind:
                family.add_metric([*self._labels, one.name.lower()], float(values.get(counter_type) == one))
            yield family
        sessions = sum(counter.type_id == CounterType.SESSION for counter in found.counters)
        yield self._one(OWN_METRICS["sessions"], sessions)
        committed = values.get(CounterType.COMMIT_POSITION, 0)
        yield self._one(OWN_METRICS["service_lag"], max(0, committed - values.get(CounterType.SERVICE_POSITION, 0)))
        yield self._one(OWN_METRICS["log_position"], log_position(found))

    def _of_driver(self, found: Observation) -> Iterator[Family]:
        refused = CounterMetricFamily(REFUSED_METRIC.name, REFUSED_METRIC.help, labels=[*LABELS, "reason"])
        for counter in found.counters:
            if counter.type_id == SYSTEM_TYPE:
                (index,) = _KEY.unpack_from(counter.key)
                if 0 <= index < len(SYSTEM_METRICS):
                    yield self._one(SYSTEM_METRICS[index], counter.value)
            elif counter.type_id == REFUSED_TYPE:
                (index,) = _KEY.unpack_from(counter.key)
                reason = REFUSED_REASONS[index] if 0 <= index < len(REFUSED_REASONS) else str(index)
                refused.add_metric([*self._labels, reason], counter.value)
        yield refused

    def _of_stages(self, found: Observation) -> Iterator[Family]:
        for stage, durations in found.durations.items():
            metric = STAGE_METRICS[stage]
            family = HistogramMetricFamily(metric.name, metric.help, labels=LABELS)
            buckets = [(str(bound).replace("inf", "+Inf"), below) for bound, below in durations.cumulative()]
            family.add_metric(self._labels, buckets, durations.sum_ns * NANOSECONDS)
            yield family

    def _info(self) -> Family:
        metric = OWN_METRICS["info"]
        family = GaugeMetricFamily(metric.name, metric.help, labels=[*LABELS, "version"])
        family.add_metric([*self._labels, VERSION], 1)
        return family

    def _one(self, metric: Metric, value: float) -> Family:
        is_counter = metric.kind is Kind.COUNTER
        make: type[CounterMetricFamily | GaugeMetricFamily] = CounterMetricFamily if is_counter else GaugeMetricFamily
        family = make(metric.name, metric.help, labels=LABELS)
        family.add_metric(self._labels, value * metric.scale)
        return family


def exposition(subject: Subject) -> bytes:
    """Return the text that Prometheus scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(subject))
    return generate_latest(registry)
