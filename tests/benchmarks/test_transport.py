"""The comparison of streams, as small as it goes, and the page that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import transport
from benchmarks.page import marks, put_section
from benchmarks.pairs import End, EndFailedError, is_steady, warm_up
from benchmarks.transport import AERON, ORDO, Effort, describe, measure
from ordo.bench.machine import describe_machine
from tests.peers.peer_process import PeerMissingError, go_without

TINY = Effort(rounds=1, duration_ms=10, sizes_bytes=(32, 65536), mtus_bytes=(1408,), warm_ups_max=1)


def quiet(line: str) -> None:
    """Says nothing."""


def check_rows(rows: dict[str, transport.Figures], contenders: set[str]) -> None:
    assert list(rows) == [
        f"{medium}, MTU 1408, {size}" for medium in ("udp", "ipc") for size in ("32 B", "65536 B", "32 B, plain Python")
    ]
    for name, figures in rows.items():
        assert set(figures) == ({ORDO} if "Python" in name else contenders)
        for each in figures.values():
            assert each["per_s"] > 0
            assert "Python" in name or 0 < each["p50_us"] <= each["p99_us"]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_streams_of_ordo_are_measured() -> None:
    rows = measure(TINY, False, quiet)
    check_rows(rows, {ORDO})
    lines = describe(rows, TINY, describe_machine())
    assert len([line for line in lines if line.startswith("| udp")]) == 3
    assert " - | - |" in lines[-1]


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.timeout(240)
@pytest.mark.thorough
def test_streams_of_aeron_are_measured_beside_them() -> None:
    try:
        rows = measure(TINY, True, quiet)
    except PeerMissingError as missing:
        go_without(missing)
    check_rows(rows, {ORDO, AERON})


def test_three_windows_that_agree_end_a_warm_up() -> None:
    assert not is_steady([100.0, 100.0])
    assert not is_steady([50.0, 80.0, 100.0])
    assert is_steady([50.0, 98.0, 100.0, 99.0])
    windows = iter([10.0, 50.0, 98.0, 100.0, 99.0, 500.0])
    assert warm_up(lambda: next(windows))
    assert next(windows) == 500.0, "no window more than it takes"


def test_what_never_becomes_steady_is_marked() -> None:
    windows = iter(range(1, 100))
    assert not warm_up(lambda: float(next(windows)), 5)
    assert next(windows) == 6
    rising = {"per_s": 1000.0, "p50_us": 7.0, "p99_us": 9.0, "steady": False}
    lines = describe({"udp": {ORDO: {**rising, "steady": True}, AERON: rising}}, TINY, describe_machine())
    assert lines[-1] == "| udp | 1,000 | 1,000 * | 7.0 / 9.0 | 7.0 / 9.0 |"


def test_a_process_that_ends_is_told() -> None:
    with End(["sh", "-c", "echo other; exit 3"]) as end, pytest.raises(EndFailedError, match="ended with status 3"):
        end.await_line("ready")


def test_a_line_that_a_process_did_not_live_to_read_is_told_and_all_is_closed() -> None:
    with End(["sh", "-c", "echo ready; exec 0<&- 1>&-; exit 4"]) as end:
        end.await_line("ready")
        with pytest.raises(EndFailedError, match="ended with status 4"):
            end.await_line("more")
        with pytest.raises(EndFailedError, match="ended with status 4"):
            end.tell("go on")


def test_a_section_is_replaced_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "figures"
    begin, end = marks("bench-x")
    page.write_text(f"before\n\n{begin}\nold\n{end}\n\nafter\n")
    for _ in range(2):
        put_section("bench-x", ["| new |"], page)
        assert page.read_text() == f"before\n\n{begin}\n\n| new |\n\n{end}\n\nafter\n"


def test_a_page_without_the_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "figures"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match="has no section between"):
        put_section("bench-x", [], page)
