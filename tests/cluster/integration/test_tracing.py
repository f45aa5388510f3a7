"""Requests are traced from the client to the reply: a collector gets every span, under the client's one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ordo import ClientSettings, ClusterClient, Tracing
from ordo.bench.span_collector import STATUS_TAKEN, SpanCollector
from ordo.bench.waterfall import MOMENTS, describe
from ordo.cli import run
from ordo.cluster.monitoring.observation import Subject
from ordo.cluster.monitoring.trace_export import TraceExport
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting import spans as spans_of_programs
from ordo.runtime.reporting.spans import Span
from tests.cluster.integration.agreement import await_members, await_that
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import PATIENT
from tests.pages.walk import read_walk

REQUESTS = 20
STAGES = {"ingress", "send", "append", "commit", "service", "reply"}
FOLLOWED = {"record", "acknowledge"}
FOLLOWERS = 2
CLOCK_DRIFT_NS = 1_000_000


class Collector(SpanCollector):
    """`status` is what it says to spans; takes them when that is 200."""

    def __init__(self) -> None:
        super().__init__()
        self.status = STATUS_TAKEN
        self.senders: dict[str, dict[str, Any]] = {}
        self.followed: dict[bytes, dict[bytes, Any]] = defaultdict(dict)
        """By trace id and id of the span, those of followers."""

    def take(self, body: bytes) -> int:
        if self.status != STATUS_TAKEN:
            return self.status
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {one.key: one.value for one in part.resource.attributes}
            for span in (span for scope in part.scope_spans for span in scope.spans):
                known = self.followed[span.trace_id] if span.name in FOLLOWED else self.traces[span.trace_id]
                assert (span.span_id if span.name in FOLLOWED else span.name) not in known, "a span came twice"
                if span.name in FOLLOWED:
                    known[span.span_id] = span
                self.senders[span.name] = resource
        return super().take(body)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        yield server


@pytest.mark.slow
def test_every_span_of_every_request_comes_with_the_clients_as_its_parent(collector: Collector) -> None:
    nodes = LocalCluster("ordo.bench.loads.echo:Echo", sync="none", cluster=PATIENT)
    for member_id in nodes.member_ids:
        path = nodes.config_path(member_id)
        path.write_text(path.read_text() + f'\n[tracing]\nendpoint = "{collector.endpoint}"\nrate = 1.0\n')
    settings = ClientSettings(
        tracing=Tracing(endpoint=collector.endpoint, rate=1.0),
        request_retry_interval_s=60.0,  # a request that is sent again has spans twice
    )
    with nodes:
        leader = nodes.await_leader()
        await_members(nodes)
        with ClusterClient(nodes.ingress_endpoints, settings=settings) as client:
            for number in range(REQUESTS):
                client.request(str(number).encode())
        complete = [{"request", *STAGES, *FOLLOWED}] * REQUESTS
        await_that(
            lambda: [set(spans) for spans in list(collector.traces.values())] == complete,
            "all spans are there",
            explain=lambda: "\n".join(str(sorted(spans)) for spans in list(collector.traces.values())),
        )
        of_followers = [FOLLOWERS * len(FOLLOWED)] * REQUESTS
        await_that(lambda: [len(one) for one in list(collector.followed.values())] == of_followers, "of every follower")
    for trace_id, spans in collector.traces.items():
        root = spans["request"]
        assert root.parent_span_id == b""
        followed = collector.followed[trace_id].values()
        assert {one.parent_span_id for one in (*followed, *(spans[name] for name in STAGES))} == {root.span_id}
        assert spans["record"].end_time_unix_nano <= spans["acknowledge"].end_time_unix_nano
        assert len({span.span_id for span in spans.values()}) == len(spans)
        times = [spans[name] for name in ("ingress", "commit", "service", "reply")]
        moments = [moment for span in times for moment in (span.start_time_unix_nano, span.end_time_unix_nano)]
        assert moments == sorted(moments)
        assert root.start_time_unix_nano - CLOCK_DRIFT_NS < moments[0]
        began = spans["reply"].start_time_unix_nano
        assert began < root.end_time_unix_nano + CLOCK_DRIFT_NS, "it ends when the call that sends returns: maybe later"
        append = spans["append"]
        assert append.start_time_unix_nano <= append.end_time_unix_nano <= spans["commit"].end_time_unix_nano
        demand_order_of_the_walk(spans)
    numbers = [one.value.int_value for spans in collector.traces.values() for one in spans["request"].attributes
               if one.key == "ordo.request"]  # fmt: skip
    assert sorted(numbers) == list(range(1, REQUESTS + 1))
    assert collector.senders["request"]["service.name"].string_value == "ordo-client"
    assert {collector.senders[name]["ordo.member"].int_value for name in STAGES} == {leader}
    steps = describe(collector.traces.values())
    assert [step["step"] for step in steps] == [moment.label for moment in MOMENTS]
    at = {step["step"]: step["at"] for step in steps}
    order = [at[one] for one in ("leader takes it", "in the follower's log", "on a quorum", "client has the answer")]
    assert order[0] > 0 and order == sorted(order)


def demand_order_of_the_walk(spans: Mapping[str, Any]) -> None:
    """A message passes the steps of docs/ARCHITECTURE.md in their order, in each of the processes."""
    moments = {one.label: one.of(spans) for one in MOMENTS}
    for processes in (("leader", "all"), ("follower",)):
        steps = [step for step in read_walk() if step.process in processes and step.moment]
        assert len(steps) > 2
        times = [moments[step.moment] for step in steps]
        assert times == sorted(times), list(zip(steps, times, strict=True))


def test_a_collector_that_takes_nothing_is_told_of_once(
    collector: Collector, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    export = TraceExport(collector.endpoint, Subject(0, 0, tmp_path, tmp_path))
    for status in (400, 400, 200, 200):
        collector.status = status
        export.export([Span(status.to_bytes(16, "big") + b"", f"{status}-{len(collector.traces)}", 1, 2, {})])
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition(collector.endpoint)[2] for line in lines] == [
        " does not take spans; those of now are lost",
        " takes spans again",
    ]


def test_misuse_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["init", str(tmp_path)]) == 0
    written = (tmp_path / "node0.toml").read_text()
    for text, words in (('endpoint = "localhost:4318"', "http://"), ("rate = 0", "rate"), ("rate = 1.5", "rate")):
        other = tmp_path / "other.toml"
        other.write_text(written.replace("[tracing]\n", f"[tracing]\n{text}\n"))
        demand_one_line(ordo("node", "--config", str(other)), 2, "tracing", words)
    for rate in (0, -1, 2, "much"):
        with pytest.raises(ConfigurationError, match="rate="):
            Tracing(endpoint="http://127.0.0.1:4318/v1/traces", rate=rate)  # type: ignore[arg-type]
    monkeypatch.setattr(spans_of_programs, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"ordo-sequencer\[otel\]"):
        Tracing(endpoint="http://127.0.0.1:4318/v1/traces")
