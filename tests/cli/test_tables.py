"""Every table fits into a terminal of 80 columns, a line for each row, also where positions have grown large."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ordo.applications.commands.group_commands import make_apps_table
from ordo.archive.inspection.archive_commands import make_recordings_table
from ordo.cluster.admin.orders import MemberStatus
from ordo.cluster.admin.upgrading import ClusterVersions, MemberVersions, OwnVersions, VersionInForce
from ordo.cluster.client.operator import MemberLook
from ordo.cluster.commands.cluster_commands import make_list_table, make_members_table
from ordo.cluster.commands.snapshots import make_snapshots_table
from ordo.cluster.commands.status import describe_state, make_status_table
from ordo.cluster.commands.versions import make_versions_table
from ordo.cluster.monitoring.counter_values import NodeStatus
from ordo.cluster.monitoring.top import Row, View
from ordo.cluster.monitoring.top_screen import draw
from ordo.consumers.consumer_commands import make_consumers_table
from ordo.runtime.errors import ClusterTimeoutError

WIDTH = 80
LARGE = 9_876_543_210
STATUS = NodeStatus(
    *(0, True, "ACTIVE", "FOLLOWER", "CLOSED", 123, LARGE, LARGE - 10, 7, 9, 1234, 0, 0, "NONE", "NONE", 0, 50, "-")
)
HOSTS = [f"192.168.100.10{one}" for one in range(3)]
WHY_DOWN = (
    f"{HOSTS[2]}:20000: no answer within 1 s: does not accept a connection; see whether the member runs, whether its"
    " ingress is at this address, and whether datagrams come through"
)


def lines_of(table: Any) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=WIDTH).print(table)
    return file.getvalue().splitlines()


def demand_lines(table: Any, row_count: int) -> list[str]:
    found = lines_of(table)
    assert max(map(len, found)) <= WIDTH
    assert len(found) == 1 + row_count, found
    return found


def status_rows() -> tuple[dict[str, Any], dict[str, NodeStatus]]:
    endpoints = [f"{host}:20000" for host in HOSTS]
    statuses = {endpoints[0]: STATUS, endpoints[1]: STATUS._replace(member_id=1, role="LEADER")}
    down = ClusterTimeoutError(WHY_DOWN)
    return {**{one: MemberLook({}, {}, "1.0") for one in statuses}, endpoints[2]: down}, statuses


def test_status_has_a_line_for_each_member_and_a_short_one_for_a_dead_one() -> None:
    found = demand_lines(make_status_table(*status_rows()), 3)
    assert found[-1].split() == ["?", f"{HOSTS[2]}:20000", "-", "-", "-", "-", "-", "no", "answer"]
    assert "9,876,543,210" in found[1] and "1,234" in found[1]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"errors": 3}, "3 errors"),
        ({"election": "CANVASS", "state": "SUSPENDED"}, "election CANVASS, SUSPENDED"),
        ({"lost": "LOG", "no_room": "LOG", "damaged": 2}, "LOST LOG, NO ROOM, DAMAGED"),
    ],
)
def test_what_is_not_as_usual_is_told_in_a_few_words(changes: dict[str, Any], told: str) -> None:
    assert describe_state(STATUS._replace(**changes)) == told


def test_members_and_list() -> None:
    ports = range(20000, 20005)
    rows = [(one, *(f"{host}:{port}" for port in ports), one == 1) for one, host in enumerate(HOSTS)]
    found = demand_lines(make_members_table(rows), 3)
    assert found[2].split() == ["1", HOSTS[1], *(f":{port}" for port in ports), "*"]
    endpoints = [[f"{host}:{port}" for port in ports] for host in HOSTS]
    listed = [MemberStatus._make((one, "voter", LARGE, *endpoints[one], one == 0)) for one in range(3)]
    assert "voter, leads" in demand_lines(make_list_table(listed), 3)[1]


def test_an_endpoint_at_another_host_is_shown_whole() -> None:
    row = (0, "10.0.0.1:20000", "10.0.9.9:20001", *(f"10.0.0.1:{port}" for port in (20002, 20003, 20004)), False)
    assert "10.0.9.9:20001" in lines_of(make_members_table([row]))[1]


def test_versions() -> None:
    runs, lacks = OwnVersions(["1.2.3", "1.3.0"], -1, ""), OwnVersions(["1.2.3"], LARGE, "1.3.0")
    members = [MemberVersions(one, "learner", own, [own, own], 12) for one, own in enumerate((runs, lacks))]
    in_force = [VersionInForce("1.3.0", LARGE)] * 2
    found = demand_lines(make_versions_table(ClusterVersions(in_force, 12, LARGE, members)), 4)
    assert "stands at 9,876,543,210: lacks 1.3.0" in found[3]


def test_snapshots() -> None:
    row = {"recording_ids": [1234, 1235], "timestamp": 1_764_000_000_000, "member_id": 0, "log_position": LARGE}
    rows = [{**row, "leadership_term_id": 123, "digest": "ab" * 16, "is_valid": False}]
    assert "2025-11-24 16:00:00Z" in demand_lines(make_snapshots_table(rows), 1)[1]


def test_consumers_and_applications() -> None:
    counts = dict.fromkeys(("in_flight", "waiting", "dead"), 1234)
    rows = [
        {"name": "pricing.desk", "mode": "exclusive", "position": LARGE, "lag": 123_456, "members": 12, "paused": 0}
    ]
    demand_lines(make_consumers_table([{**row, **counts} for row in rows]), 1)
    instance = {"group": "risk.checks", "instance": "machine-17", "session": 1 << 61, "canary": False, "active": True}
    counts = {"position": LARGE, "lag": 12_345, "outputs_made": 1_234_567, "outputs_executed": 1_234_560}
    shown = {**instance, **counts, "version": "1.22.333", "reported_ms": 12_345}
    assert "machine-17" in demand_lines(make_apps_table([shown]), 1)[1]
    for count, words in ((0, "some"), (15, "15"), (64, "64+"), (1 << 19, "524288+")):
        head, line = demand_lines(make_apps_table([{**shown, "refused": True, "outputs_refused": count}]), 1)
        assert line[head.index("refused") :].split()[0] == words
    exact = {**shown, "refused": True, "outputs_refused": 1 << 19, "refused_exact": True}
    assert " 524288 " in demand_lines(make_apps_table([exact]), 1)[1]
    assert "refused" not in lines_of(make_apps_table([{**shown, "refused": False, "outputs_refused": 0}]))[0]
    assert "session 42" in demand_lines(make_apps_table([{**shown, "instance": "", "session": 42}]), 1)[1]


def test_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    channel = "aeron:udp?endpoint=192.168.100.100:20002|term-length=64m|alias=log|session-id=-1234567890"
    numbers = {"recording_id": 12, "stream_id": 100, "session_id": -1_234_567_890}
    positions = {"start_position": 1 << 20, "stop_position": LARGE, "is_active": False}
    found = demand_lines(make_recordings_table([SimpleNamespace(**numbers, **positions, stripped_channel=channel)]), 1)  # type: ignore[list-item]
    assert "…" in found[1] or "aeron:udp" in found[1]


def top_rows(**changes: Any) -> list[Row]:
    names = Row._fields[: Row._fields.index("trouble")]
    numbers = dict.fromkeys(names, LARGE)
    words = {
        "role": "FOLLOWER",
        "state": "ACTIVE",
        "no_room": "",
        "lost": "",
        "damaged": 0,
        "ingress": f"{HOSTS[0]}:20000",
    }
    rows = [Row(**{**numbers, **words, "member": one, **changes}) for one in range(2)]
    return [*rows, rows[0]._replace(trouble=WHY_DOWN)]


def test_top_leaves_columns_out_until_it_fits() -> None:
    found = lines_of(draw(top_rows(), View(), width=WIDTH))
    assert max(map(len, found)) <= WIDTH and len(found) == 1 + 1 + 3 + 1
    assert "lag" in found[1] and "errors" in found[1] and "damaged" not in found[1]
    assert "no answer" in found[-2]


def test_top_keeps_what_has_something_to_say_and_what_it_is_sorted_by() -> None:
    found = lines_of(draw(top_rows(damaged=3, lost="LOG"), View(column=8), width=WIDTH))
    assert max(map(len, found)) <= WIDTH and len(found) == 1 + 1 + 3 + 1
    assert "damaged" in found[1] and "lost" in found[1] and "sent/s ^" in found[1]
