"""The comparison with Kafka's broker: what it prints, and a small run of it where the broker's jars can be had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.kafka import KAFKA, ORDO, Figures, main, show
from benchmarks.kafka_broker import kafka_jars
from tests.peers.peer_process import PeerMissingError, go_without


def test_the_table_has_medians_and_what_they_are_of_each_other() -> None:
    runs = {
        ORDO: [Figures(2_000, 1.0, 4.0), Figures(9_000, 9.0, 9.0), Figures(1_000, 0.5, 1.0)],
        KAFKA: [Figures(1_000, 2.0, 8.0)],
    }
    _, _, own, other, ratio = show(runs).splitlines()
    assert own == "| ordo kafka | 2,000 | 1.00 ms | 4.00 ms |"
    assert other.endswith("| 1,000 | 2.00 ms | 8.00 ms |")
    assert ratio == "| the first by the second | 2.00 | 0.50 | 0.50 |"


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    pytest.importorskip("kio", reason="needs the extra kafka")
    try:
        kafka_jars()
    except PeerMissingError as missing:
        go_without(missing)
    main(["--messages", "2000", "--seconds", "1", "--rounds", "1", "--json", str(tmp_path / "figures.json")])
    assert "| the first by the second |" in capsys.readouterr().out
    assert set(json.loads((tmp_path / "figures.json").read_text())) == {ORDO, KAFKA}
