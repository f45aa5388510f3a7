"""Pages that tell the truth: who is marked, in which unit and zone, and that tables scroll where the page is narrow."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from ordo.pipeline.jobs import audit_report, latency, market, replay, sessions
from ordo.pipeline.jobs.report import Report, new_figure, price, time_axis
from ordo.pipeline.recordings.time_unit import moment
from ordo.pipeline.spark.rows import KeptRows

MOMENT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def difference(odd: str | None) -> dict[str, Any]:
    return {
        "nodes": ["node0", "node1"],
        "position": 96,
        "byte": 100,
        "field": "payload",
        "left": 1,
        "right": 2,
        "odd": odd,
    }


def audit_facts(*differences: dict[str, Any]) -> dict[str, Any]:
    node = {"recording": 0, "start": 0, "limit": 1000, "frames": 1, "messages": 1, "payload_bytes": 1,
            "finding_count": 0, "terms": [], "clock": [], "arrivals": []}  # fmt: skip
    nodes = [{**node, "node": f"node{number}"} for number in range(3)]
    return {"status": "damaged", "first_problem": differences[0], "nodes": nodes, "findings": [], "uncommitted": [],
            "differences": list(differences), "shorter": [], "not_proven": []}  # fmt: skip


def marked_rows(page: str) -> list[str]:
    return re.findall(r'<tr class="bad"><td[^>]*>(.*?)</td>', Path(page).read_text())


def test_only_the_damaged_node_is_marked(tmp_path: Path) -> None:
    """A difference once marked both nodes, also the good one that the other was compared with."""
    assert marked_rows(audit_report.write_report(audit_facts(difference("node1")), str(tmp_path))) == ["node1"]
    unknown = audit_facts(difference(None))
    assert marked_rows(audit_report.write_report(unknown, str(tmp_path))) == ["node0", "node1"]


def test_marks_in_the_picture_are_at_the_damaged_node() -> None:
    axis = audit_report._map(audit_facts(difference("node1"))).axes[0]
    marks = [line for line in axis.lines if line.get_marker() == "v" and len(line.get_xdata())]
    assert [list(line.get_ydata()) for line in marks] == [[1]]
    assert axis.get_xlabel() == "log position (bytes)"


def test_a_single_moment_does_not_stand_alone_on_years() -> None:
    figure, axis = new_figure()
    axis.plot([MOMENT], [1.0], marker=".")
    time_axis(axis, [MOMENT])
    low, high = axis.get_xlim()
    assert (high - low) * 86400 == 60 or abs((high - low) * 86400 - 60) < 0.01
    assert axis.get_xlabel() == "time (UTC)" and figure is axis.figure


def test_times_have_their_zone_and_numbers_their_place(tmp_path: Path) -> None:
    report = Report("T", {})
    east = MOMENT.astimezone(timezone(timedelta(hours=5)))
    report.table(("cluster_time", "count", "ratio", "flag", "none"), [(east, 1234567, 0.5, True, None)])
    text = report.write(str(tmp_path), "t").read_text()
    assert "2026-01-31 12:00:00.000 UTC" in text and "<th>cluster time</th>" in text
    shown = re.findall(r'<td( class="number")? data-name="(.*?)">(.*?)</td>', text)
    assert shown == [
        (' class="number"', "count", "1,234,567"),
        (' class="number"', "ratio", "0.500"),
        ("", "flag", "True"),
        ("", "none", ""),
    ]
    assert 'name="viewport" content="width=device-width' in text
    assert '<div class="scroll"><table>' in text and ".scroll{overflow-x:auto" in text
    assert "@media(max-width:40rem){table,tbody,tr,td{display:block}" in text, "on a phone a row is a list"


def test_checksums_are_no_amounts(tmp_path: Path) -> None:
    finding = {"position": 1_000_000, "node": "node0", "segment": "0-0.rec", "fault": "checksum",
               "expected": 3_735_928_559, "actual": -17_654_321}  # fmt: skip
    facts = {**audit_facts(difference("node1")), "findings": [finding]}
    text = Path(audit_report.write_report(facts, str(tmp_path))).read_text()
    assert ">3735928559<" in text and ">-17654321<" in text and ">1,000,000<" in text


def test_a_term_begins_at_a_time() -> None:
    """Of a clock of milliseconds, microseconds or nanoseconds; damage may say anything."""
    assert [moment(int(MOMENT.timestamp()) * scale) for scale in (10**3, 10**6, 10**9)] == [MOMENT] * 3
    assert moment(-(2**63)) == datetime(1677, 9, 21, 0, 12, 43, 145224, tzinfo=UTC)
    assert moment(99_999_999_999_999) == datetime(5138, 11, 16, 9, 46, 39, 999000, tzinfo=UTC)
    assert moment(-99_999_999_999_999) == -99_999_999_999_999


def test_prices_have_decimals_and_instruments_are_apart(tmp_path: Path) -> None:
    assert [price(value, 10_000) for value in (3_210_200, 5, None)] == ["321.0200", "0.0005", ""]
    bar = {"bar": 0, "start": MOMENT, "end": MOMENT, "open": 3_210_200, "high": 3_215_400, "low": 3_208_000,
           "close": 3_208_000, "vwap": 3_209_911.5, "quantity": 1000, "trades": 3}  # fmt: skip
    bars = [{**bar, "instrument": number} for number in (13, 7)]
    facts = {"executions": 6, "shares": 2000, "bars": bars, "spread_by_minute": [], "last_quote": None}
    text = Path(market.write_page(facts, str(tmp_path), 1000)).read_text()
    assert re.findall(r"<h2>(.*?)</h2>", text) == ["Instrument 7", "Instrument 13"]
    assert text.count("<img ") == 2 and "321.5400" in text and "3,215,400" not in text
    assert "a bar may have more or fewer shares, and one in which no trade begins is left out" in text


@pytest.mark.parametrize(("status", "mark"), [("agrees", "good"), ("differs", "bad"), ("not checked", None)])
def test_what_was_not_checked_is_neither_good_nor_bad(status: str, mark: str | None, tmp_path: Path) -> None:
    stretch = {"start": 0, "end": 9, "records": 1, "emitted": 0, "verdict": status, "state": "no snapshot",
               "reason": "", "emitted_hash": "0"}  # fmt: skip
    first = {"position": 9, "what": "state", "expected": "1", "actual": "2", "record": None}
    facts = {"service": "my:Service", "status": status, "baseline": None, "snapshots_compared": 0,
             "coverage": {"records": 1, "agrees": 0, "differs": 0, "not_checked": 1},
             "outputs_compared": {"hashes": 0, "published": 0, "answers": 0}, "unreadable_snapshots": [],
             "first_difference": first if status == "differs" else None, "stretches": [stretch]}  # fmt: skip
    text = Path(replay.write_report(facts, str(tmp_path))).read_text()
    assert re.findall(r'<p(?: class="(\w+)")?>', text)[0] == (mark or "")
    assert ('<tr class="bad">' in text) == (status == "differs")


def test_a_clock_of_milliseconds_is_named(tmp_path: Path) -> None:
    row = {"kind": "message", "count": 1, "mean": 3.0, "unknown": 0}
    rough = {**row, **dict.fromkeys(("p50", "p90", "p99", "p999"), 0.0), "max": 2000.0}
    for found, is_named in (([rough], True), ([{**rough, "max": 2000.5}], False), ([], False)):
        views = {name: KeptRows(found if name == "kind" else [], len(found)) for name in latency.VIEWS}
        text = Path(latency.write_page(views, "gap between messages of a session", str(tmp_path))).read_text()
        assert ("0.000 stands for less than 1,000 microseconds" in text) is is_named


def test_pages_of_latency_and_sessions(tmp_path: Path) -> None:
    row = {"count": 1, "p50": 1.0, "p90": 1.0, "p99": 1.0, "p999": 1.0, "max": 1.0, "mean": 1.0, "unknown": 0}
    views = {
        "minute": KeptRows([{**row, "minute": MOMENT}], 1),
        "session_id": KeptRows([{**row, "session_id": 1}], 1),
        "kind": KeptRows([{**row, "kind": "request", "unknown": 1_200}], 1),
    }
    text = Path(latency.write_page(views, "gap between messages of a session", str(tmp_path))).read_text()
    assert "Of 1,200 requests it is not known whether they are repeats" in text
    assert "By minute, in microseconds" in text and "<img " in text
    nothing = {name: KeptRows() for name in views}
    text = Path(latency.write_page(nothing, "gap between messages of a session", str(tmp_path))).read_text()
    assert "nothing of which there is a gap" in text and "<img " not in text
    session = {"node": "node0", "session_id": 4_060_732_703, "opened": MOMENT, "closed": None, "messages": 0,
               "first_message": None, "last_message": None, "close_reason": None, "payload_bytes": 0,
               "repeats": 3, "unknown": 1, "duration_s": None}  # fmt: skip
    totals = sessions.Totals()
    totals.add(session)
    rows = KeptRows([session] * 1000, 1001, "sessions.jsonl")
    text = Path(sessions.write_page(rows, totals, str(tmp_path))).read_text()
    assert (
        "The first 1,000 of 1,001 rows; sessions.jsonl beside this page has all" in text
        and "still open" in text
        and "(the first 500)" in text
        and ">4060732703<" in text
    )
    assert "0 messages; 3 repeats, which were not executed, are left out" in text
    assert "Of 1 requests it is not known whether they are repeats" in text
