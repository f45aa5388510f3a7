"""The comparison with Kafka's broker: what it prints, and a small run of it where the broker's jars can be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kafka import KAFKA, ORDO, Result, main, show
from benchmarks.kafka_broker import kafka_jars
from benchmarks.kafka_client import Figures
from benchmarks.processor import microseconds_each, processor_s, seconds_of, with_children
from tests.cluster.integration.agreement import await_that
from tests.peers.peer_process import PeerMissingError, go_without

COSTS = {"client": 2.0, "door": 1.0, "members": 1.5, "services": 1.25}


def test_the_table_has_medians_and_what_they_are_of_each_other() -> None:
    own_runs = [Figures(2_000, 1.0, 4.0, COSTS), Figures(9_000, 9.0, 9.0, COSTS), Figures(1_000, 0.5, 1.0, COSTS)]
    other_runs = [Figures(1_000, 2.0, 8.0, {"client": 3.0, "brokers": 4.0})]
    found = {ORDO: Result(own_runs, is_steady=True), KAFKA: Result(other_runs, is_steady=False)}
    _, _, own, other, ratio = show(found).splitlines()
    assert own == "| ordo kafka | 2,000 | 1.00 ms | 4.00 ms | 2.00 | 1.00 | 1.50 | 1.25 | - |"
    assert other.endswith(" * | 1,000 | 2.00 ms | 8.00 ms | 3.00 | - | - | - | 4.00 |")
    assert ratio.startswith("| the first by the second | 2.00 | 0.50 | 0.50 |")


def test_time_on_a_processor_is_that_of_a_process_and_its_children() -> None:
    child = subprocess.Popen([sys.executable, "-c", "sum(range(3_000_000)); input()"], stdin=subprocess.PIPE)
    try:
        groups = {"own": [os.getpid()], "child": [child.pid]}
        before = seconds_of(groups)
        await_that(lambda: processor_s(child.pid) > 0.02, "the child to work")
        assert child.pid in with_children(os.getpid())
        found = microseconds_each(before, seconds_of(groups), count=10)
        assert found["child"] > 0 and found["own"] >= 0
    finally:
        child.communicate()


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("members", [1, 3])
def test_a_small_run(members: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    pytest.importorskip("kio", reason="needs the extra kafka")
    try:
        kafka_jars()
    except PeerMissingError as missing:
        go_without(missing)
    words = f"--members {members} --messages 2000 --seconds 1 --rounds 1 --warm-ups-max 1".split()
    main([*words, "--json", str(tmp_path / "figures.json")])
    assert "| the first by the second |" in capsys.readouterr().out
    found = json.loads((tmp_path / "figures.json").read_text())
    kinds = {name: set(Figures(*Result(*one).runs[0]).microseconds) for name, one in found.items()}
    assert kinds == {ORDO: {"client", "door", "members", "services"}, KAFKA: {"client", "brokers"}}
