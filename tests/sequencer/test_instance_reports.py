"""When an instance says how far it is."""

from __future__ import annotations

import pytest

from ordo.applications.app_versions import AppVersions
from ordo.applications.application import ApplicationSettings
from ordo.applications.instance_reports import InstanceReports, InstanceState
from ordo.cluster.wire.sessions.instance_codec import NOT_COUNTED, InstanceReport, ReportFlag, decode_report
from ordo.ordering import Ordering
from ordo.runtime.errors import ConfigurationError

FIRST, SECOND = InstanceState(100, 2, 1, True, 2), InstanceState(200, 3, 3, False, 3)


class Session:
    """A session that keeps what is sent."""

    def __init__(self) -> None:
        self.session_id, self.leadership_term_id = 7, 1
        self.takes = True
        self.sent: list[InstanceReport] = []

    def offer_report(self, message: bytes) -> bool:
        report = decode_report(message)
        assert report is not None
        if self.takes:
            self.sent.append(report)
        return self.takes


def reports() -> InstanceReports:
    return InstanceReports("pricing", "here", AppVersions({2: Ordering, 3: Ordering}), 1000, is_canary=False)


def test_changes_are_reported_once_an_interval() -> None:
    one, session = reports(), Session()
    one.work(session, FIRST, 120, 0)
    assert session.sent == [InstanceReport("pricing", "here", 7, 0, 120, 2, 1, 2, ReportFlag.ACTIVE, 3)]
    one.work(session, SECOND, 220, 999)
    assert len(session.sent) == 1 and one.reported == FIRST
    one.work(session, SECOND, 220, 1000)
    assert session.sent[-1][4:] == (220, 3, 3, 3, ReportFlag.NONE, 3, NOT_COUNTED)
    for now_ns in (2000, 9000):
        one.work(session, SECOND, now_ns, now_ns)
    assert len(session.sent) == 2, "reports are entries of the log, and must not lead to more of them"


def test_refused_outputs_are_counted_exactly_where_the_log_has_such_reports() -> None:
    one, session = reports(), Session()
    refused = FIRST._replace(outputs_refused=70)
    one.work(session, refused, 120, 0)
    assert (session.sent[-1].refused, session.sent[-1].is_refused_exact) == (64, False)
    one.work(session, refused._replace(counts_refused=True), 120, 1000)
    assert (session.sent[-1].refused, session.sent[-1].is_refused_exact) == (70, True)


def test_a_new_term_and_a_new_session_are_told_at_once() -> None:
    one, session = reports(), Session()
    one.work(session, FIRST, 120, 0)
    session.leadership_term_id = 2
    one.work(session, FIRST, 120, 1)
    session.session_id = 8
    one.work(session, FIRST, 120, 2)
    assert [report.session_id for report in session.sent] == [7, 7, 8]
    session.session_id = -1
    one.work(session, SECOND, 120, 5000)
    assert len(session.sent) == 3


def test_what_was_not_taken_is_offered_again() -> None:
    one, session = reports(), Session()
    session.takes = False
    one.work(session, FIRST, 120, 0)
    assert one.reported is None
    session.takes = True
    one.work(session, FIRST, 120, 1)
    assert len(session.sent) == 1


@pytest.mark.parametrize(("setting", "value"), [("instance", "i" * 129), ("report_interval_s", 0)])
def test_what_an_instance_may_be_called_is_bounded(setting: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        ApplicationSettings(group="g", endpoints=["a:1"], folder="f", **{setting: value})  # type: ignore[arg-type]
