"""The comparison of clusters, as small as it goes, and how the tools of others are understood."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import go_peers, peers
from benchmarks.peers import INLINE, PROCESS, Effort, describe, measure
from benchmarks.transport import AERON, java_command
from ordo.bench.machine import describe_machine
from tests.peers.peer_process import PeerMissingError, go_without

TINY = Effort(rounds=1, duration_s=0.02, warm_up_s=0.02, sizes_bytes=(32,), windows=(1, 16))


def quiet(line: str) -> None:
    """Says nothing."""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_clusters_of_ordo_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "SYNCS", ("none",))
    rows = measure(TINY, False, quiet)
    assert list(rows) == [("none", 32, 1), ("none", 32, 16)]
    for figures in rows.values():
        assert figures.keys() == {INLINE, PROCESS}
        assert all(each["per_s"] > 0 and 0 < each["p50_us"] <= each["p99_us"] for each in figures.values())
    assert [line for line in describe(rows, [], TINY, describe_machine()) if line.startswith("| none | 32 | 16 |")]


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.timeout(240)
@pytest.mark.thorough
def test_a_cluster_of_aeron_is_measured() -> None:
    try:
        java_command("ClusterNode")
    except PeerMissingError as missing:
        go_without(missing)
    with peers.java_client("none", replace(TINY, java_idle="backoff")) as end:
        figures = peers.measure_cluster(end, TINY)
    assert figures.keys() == {(32, 1), (32, 16)}
    assert all(each["per_s"] > 0 for each in figures.values())


def test_a_row_has_each_contenders_figures_and_no_ratio() -> None:
    ordo = {"per_s": 200.0, "p50_us": 50.0, "p99_us": 300.0}
    aeron = {"per_s": 100.0, "p50_us": 100.0, "p99_us": 200.0}
    lines = describe(
        {("commit", 288, 512): {INLINE: ordo, AERON: aeron}},
        [["etcd", "commit", "32", "1", "9", "-"]],
        TINY,
        describe_machine(),
    )
    assert "| commit | 288 | 512 | 200 | - | 100 | 50 / 300 | - | 100 / 200 |" in lines
    assert lines[-1] == "| etcd | commit | 32 | 1 | 9 | - |"


def test_what_the_tools_of_others_say_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Requests/sec:\t996.4679\n  50% in 0.0005 secs.\n  95% in 0.0048 secs.\n"
    monkeypatch.setattr(go_peers, "run", lambda _: said)
    assert go_peers._etcd_run(["etcd"], 60) == (996.4679, "500 / -")
    with pytest.raises(RuntimeError, match="NATS' benchmark said something else"):
        go_peers._nats_run(["nats"], 60)
    said = "NATS JetStream asynchronous publisher stats: 50,739 msgs/sec ~ 1.5 MiB/sec ~ P50 12.5µs, P99: 1.2ms\n"
    monkeypatch.setattr(go_peers, "run", lambda _: said)
    assert go_peers._nats_run(["nats"], 60) == (50739.0, "12 / 1,200")
