"""What leaders of real clusters say in the log of how well their clocks are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.ordo_codecs import ClockSource
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.reader import LogReader
from ordo.pipeline.jobs.audit import audit
from ordo.runtime.native.kernel_clock import read_clock_quality
from tests.cluster.integration.agreement import await_members
from tests.cluster.integration.command import order, ordo
from tests.cluster.integration.conftest import LEDGER, PATIENT, StartCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_the_log_has_reports_of_each_leader_and_the_audit_reads_them(start_cluster: StartCluster) -> None:
    cluster = start_cluster(LEDGER, cluster={**PATIENT, "clock_report_interval": "100ms"})
    archives = [one.archive for one in load_config(cluster.config_path(0)).member_list]

    def report_behind(term_id: int) -> LogEntry:
        with LogReader(archives, from_position=0, kinds=[EntryKind.CLOCK]) as reader:
            return next(entry for entry in reader.entries(timeout_s=60) if entry.leadership_term_id > term_id)

    first = report_behind(-1)
    told = read_clock_quality()
    assert first.values.source == (ClockSource.NONE if told is None else ClockSource.KERNEL)
    assert first.values.interval_ns == 100_000_000 and abs(first.values.wall_clock_ahead_ns) < 60_000_000_000
    former = first.values.member_id
    order(cluster, "transfer")
    await_members(cluster)
    second = report_behind(first.leadership_term_id)
    assert second.values.member_id != former
    printed = ordo("log", *archives, "--until", str(first.position), "--kind", "clock").stdout
    assert " clock " in printed and f"member_id={former}" in printed and len(printed.splitlines()) == 1
    for member_id in range(3):
        cluster.stop(member_id)
    folders = [str(Path(load_config(cluster.config_path(one)).archive_dir)) for one in range(3)]
    facts = audit(None, folders)
    assert facts["status"] == "clean"
    stamped = [one for one in facts["nodes"][0]["clock"] if one["reports"]]
    assert [one["member"] for one in stamped][:2] == [former, second.values.member_id]
