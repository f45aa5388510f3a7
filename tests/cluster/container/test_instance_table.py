"""What instances of applications report, as a function of records and ended sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ordo.cluster.container.tables.instance_table import LIST_BYTES_MAX, InstanceTable
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.sessions.instance_codec import (
    InstanceReport,
    ReportFlag,
    decode_report,
    encode_refused,
    encode_report,
    refused_of,
)
from ordo.runtime.errors import SnapshotError


def report(session_id: int, **changes: Any) -> InstanceReport:
    first = InstanceReport("pricing", f"host:{session_id}", session_id, 1000, 500, 8, 7, 3, ReportFlag.ACTIVE, 0xFF0102)
    return first._replace(**changes)


def rows(table: InstanceTable, after: int = -1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(table.describe(after, 640, 1250))
    return found


def test_a_report_replaces_the_one_before_and_goes_with_its_session() -> None:
    table = InstanceTable()
    table.take(report(5, position=100))
    table.take(report(5))
    table.take(report(6, flags=ReportFlag.NONE))
    first, second = rows(table)
    assert first == {
        "group": "pricing",
        "instance": "host:5",
        "session": 5,
        "active": True,
        "canary": False,
        "version": 3,
        "newest_version": 0xFF0102,
        "position": 500,
        "log_position": 640,
        "lag": 140,
        "outputs_made": 8,
        "outputs_executed": 7,
        "refused": False,
        "outputs_refused": 0,
        "refused_exact": True,
        "reported_ms": 250,
    }
    assert (second["session"], second["active"]) == (6, False)
    table.close_session(5)
    table.close_session(99)
    assert [row["session"] for row in rows(table)] == [6]


def test_the_count_of_refused_outputs_is_in_bits_that_every_release_keeps() -> None:
    """Exact while it is small, then the power of two below; neither the flags nor the newest version are touched."""
    for count in (*range(70), 1000, 2**19, 2**40):
        flags = ReportFlag.ACTIVE | ReportFlag.REFUSED | encode_refused(count)
        floor = count if count <= 15 else min(2**19, 1 << count.bit_length() - 1)
        assert refused_of(flags) == floor
        record = encode_report(report(5, flags=flags), 0)
        found = decode_report(record)
        assert found is not None and (found.newest_version, found.app_version) == (0xFF0102, 3)
        assert encode_report(found, 0) == record and len(record) == len(encode_report(report(5), 0))
        table = InstanceTable()
        table.take(found)
        (row,) = rows(table)
        assert (row["active"], row["canary"], row["refused"], row["outputs_refused"]) == (True, False, True, floor)
        assert row["refused_exact"] is (count <= 15) or count == 0
    assert refused_of(ReportFlag.REFUSED) == 0, "an earlier release does not tell how many"


@pytest.mark.parametrize("count", [0, 1, 15, 16, 1000, 2**40 + 1])
def test_a_long_report_has_the_exact_count_of_refused_outputs(count: int) -> None:
    sent = report(5, flags=ReportFlag.REFUSED | encode_refused(count), outputs_refused=count)
    record = encode_report(sent, 0)
    assert decode_report(record) == sent and len(record) == len(encode_report(report(5), 0)) + 8
    table = InstanceTable()
    table.take(sent)
    restored = InstanceTable()
    restored.restore(table.snapshot())
    (row,) = rows(restored)
    assert (row["outputs_refused"], row["refused_exact"]) == (count, True)


def test_a_count_that_cannot_be_is_no_report() -> None:
    record = encode_report(report(5, outputs_refused=3), 0)
    offset = 8 + ordo_codecs.LONG_APP_REPORT.block_length - 8
    assert decode_report(record[:offset] + (-2).to_bytes(8, "little", signed=True) + record[offset + 8 :]) is None
    assert decode_report(record[: offset + 7]) is None


def test_a_long_list_comes_in_parts() -> None:
    table = InstanceTable()
    for session_id in range(1, 101):
        table.take(report(session_id, instance="x" * 128))
    found: list[int] = []
    while part := rows(table, found[-1] if found else -1):
        assert len(json.dumps(part)) < LIST_BYTES_MAX + 600
        found += [row["session"] for row in part]
    assert found == list(range(1, 101))


def test_a_snapshot_brings_all_back() -> None:
    table, restored = InstanceTable(), InstanceTable()
    for session_id in (7, 3):
        table.take(report(session_id))
    restored.restore(table.snapshot())
    assert rows(restored) == rows(table)
    assert list(restored.snapshot()) == list(table.snapshot())
    with pytest.raises(SnapshotError, match="report of an instance"):
        restored.restore([b"\0" * 72])


def test_bytes_that_make_no_sense_are_no_report() -> None:
    record = encode_report(report(5), 1)
    assert decode_report(record) == report(5)
    assert ordo_codecs.APP_REPORT.decode(record).leadership_term_id == 1
    for cut in range(len(record)):
        assert decode_report(record[:cut]) is None
    assert decode_report(record + b"x") is None
    assert decode_report(record[:-1] + b"\xff") is None
    for changes in ({"group": ""}, {"group": "g" * 65}, {"instance": "i" * 129}):
        assert decode_report(encode_report(report(5, **changes), 1)) is None
    for offset in (64, 68):  # the lengths
        for value in (-1, 2**31 - 1):
            changed = bytearray(record)
            changed[offset : offset + 4] = value.to_bytes(4, "little", signed=True)
            assert decode_report(bytes(changed)) is None
