"""A service in clusters of each unit of time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from ordo.service_api.service import ClusteredService, TimeUnit
from ordo.service_api.testing.harness import AdvanceTime, Message, OpenSession, ServiceHarness, check_service
from tests.snippets import open_page

START_NS = 1_795_950_967_418_492_704


class OfPage(ClusteredService):
    """Does with every message what docs/CONCEPTS.md shows."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.last_timestamp = 0
        self.fired: list[tuple[int, int]] = []
        self.shown: list[Any] = []

    def on_start(self, cluster: Any, snapshot: Any) -> None:
        self.cluster = cluster

    def on_session_message(self, session: Any, timestamp: int, payload: bytes, header: Any) -> None:
        names = {"self": self, "timestamp": timestamp}
        *lines, date, passed = (line for line in self.code.splitlines() if line.strip())
        exec("\n".join(lines), names)
        self.shown += [eval(date, names), eval(passed, names)]
        self.last_timestamp = timestamp

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.fired.append((correlation_id, timestamp))


@pytest.mark.parametrize("unit", TimeUnit)
def test_the_page_in_every_unit(unit: TimeUnit) -> None:
    with open_page("CONCEPTS.md") as page:
        code = page.take("python")
        converting = page.take("python")
    harness = ServiceHarness(lambda: OfPage(code), time_unit=unit)
    service: Any = harness.service
    start = START_NS // unit.length_ns
    harness.execute(OpenSession(1, start), AdvanceTime(start), Message(1, start, b"a"))
    harness.execute(Message(1, start + unit.duration(milliseconds=7), b"b"))
    date, _, _, passed_ns = service.shown
    assert isinstance(date, datetime)
    assert date == unit.to_datetime(start)
    assert passed_ns == 7_000_000
    due = start + unit.duration(milliseconds=57)
    harness.execute(AdvanceTime(due - 1))
    assert service.fired == []
    harness.execute(AdvanceTime(due))
    assert service.fired == [(7, due)]
    inputs = OpenSession(1, start), Message(1, start, b"a"), AdvanceTime(due)
    checked: Any = check_service(lambda: OfPage(code), inputs, time_unit=unit).service
    assert checked.fired == [(7, due)]
    names: dict[str, Any] = {}
    exec(converting, names)
    service.last_timestamp = start
    names["on_time_unit"](service, unit, TimeUnit.NANOS)
    assert service.last_timestamp == unit.to_ns(start)
