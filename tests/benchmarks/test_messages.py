"""Codecs beside SBE's own in Java: both write the same bytes, and all are measured in one run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.messages import JAVA_WAYS, JavaCodec, main, measure, start_java
from ordo.bench.message_codecs import VALUES, Order, ways
from ordo.messages import encode
from tests.peers.peer_process import PeerMissingError, go_without

BITS = (64, 64, 64, 32, 32, 16, 8, 8)
WARM_UP_COUNT = 1_000


@pytest.fixture(scope="module")
def java() -> Iterator[JavaCodec]:
    try:
        codec = JavaCodec(WARM_UP_COUNT)
    except PeerMissingError as missing:
        go_without(missing)
    with codec:
        yield codec


def any_values(generator: random.Random) -> tuple[int, ...]:
    """Eight numbers of the fields' widths, but those that stand for None; the third has a sign."""
    drawn = [generator.randrange((1 << bits) - 1) for bits in BITS]
    drawn[2] -= (1 << 63) - 1
    return tuple(drawn)


@pytest.mark.peers
def test_java_writes_the_bytes_of_ordo_and_reads_them(java: JavaCodec) -> None:
    generator = random.Random(41)
    for values in (VALUES, *(any_values(generator) for _ in range(50))):
        ours = encode(Order(*values))
        assert java.write(values) == ours
        assert java.read(ours) == values


@pytest.mark.peers
def test_a_run_has_a_row_for_each_codec(java: JavaCodec) -> None:
    java.write(VALUES)
    figures = measure(2, 10, java)
    assert list(figures) == [*(way.name for way in ways()), *JAVA_WAYS]
    assert all(figures[name]["bytes"] == 44 and min(figures[name].values()) > 0 for name in JAVA_WAYS)


def test_without_a_jdk_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert start_java(1) is None
    assert capsys.readouterr().err == "without Java's SBE: a JDK (java) is not installed\n"
    main(["--rounds", "1", "--count", "10", "--json", str(tmp_path / "figures.json")])
    printed = capsys.readouterr()
    assert "struct" in printed.out and "Java" not in printed.out
    assert list(json.loads((tmp_path / "figures.json").read_text())["message_codec_ns"]) == [way.name for way in ways()]


def test_rounds_and_counts_of_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rounds", "0"])
    assert "--rounds and --count are 1 or more" in capsys.readouterr().err
