"""What a consensus module keeps apart of several services, and what it puts together."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.module.services.service_reports import ServiceReports
from ordo.cluster.module.sessions.service_messages import ServiceMessages, first_log_session_id, service_of
from ordo.cluster.module.sessions.timers import ClusterTimers
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.snapshots.part_lengths import pack_lengths, unpack_lengths
from ordo.cluster.wire.snapshots.snapshot_digest import combine
from ordo.cluster.wire.version_rows import Code, shared_codes
from ordo.runtime.errors import ClusterError, DecodeError
from ordo.runtime.native.clock import VirtualClock


def test_services_have_timers_of_their_own_under_the_same_correlation_id() -> None:
    timers, fired = ClusterTimers(2), []

    def append(correlation_id: int) -> bool:
        fired.append(correlation_id)
        return True

    timers[0].schedule(7, 100)
    timers[1].schedule(7, 200)
    timers.fire_due(150, append)
    assert fired == [7]
    timers.execute(7)
    for service_id in (0, 1):
        timers[service_id].on_service_executed(7, 150)
    assert timers.snapshot() == [(7, 200)]
    timers.fire_due(250, append)
    assert fired == [7, 7]


def test_a_timer_that_does_not_go_into_the_log_is_fired_later() -> None:
    timers, fired = ClusterTimers(2), []
    timers[1].schedule(9, 100)
    timers.fire_due(150, lambda correlation_id: False)
    timers.fire_due(150, lambda correlation_id: fired.append(correlation_id) is None)
    assert fired == [9]


def test_messages_are_numbered_by_service() -> None:
    messages, log = ServiceMessages(2), []
    for service_id in (0, 1, 1):
        messages[service_id].enqueue(b"%d" % service_id)
    assert messages.append_pending(lambda session_id, payload: log.append((session_id, payload)) is None) == 3
    assert [(service_of(session_id), payload) for session_id, payload in log] == [(0, b"0"), (1, b"1"), (1, b"1")]
    messages.execute(log[1][0])
    assert [len(one) for one in messages] == [1, 1]
    with pytest.raises(ClusterError, match="service 2"):
        messages.execute(first_log_session_id(2) + 1)


def test_versions_that_all_services_have() -> None:
    services = [[Code(1, 1), Code(2, 3)], [Code(2, 1), Code(3, 1)]]
    assert shared_codes(services) == [Code(2, 1)]


def test_what_services_report_is_put_together() -> None:
    found: list[tuple[int, Any]] = []
    nobody: Any = None
    reports = ServiceReports(
        VirtualClock(),
        2,
        nobody,
        nobody,
        {ordo_codecs.STATE_HASH: lambda service_id, values, now_ns: found.append((service_id, values))},
        answer_question=lambda table, values: None,
        on_ready=lambda: None,
        on_state_kept=lambda *kept: None,
    )
    for service_id, digest in enumerate((b"a" * 16, b"b" * 16)):
        values = ordo_codecs.STATE_HASH.decode(
            ordo_codecs.STATE_HASH.encode(log_position=320, service_id=service_id, digest=digest)
        )
        reports.on_service_report(service_id, ordo_codecs.STATE_HASH, values)
    ((service_id, state_hash),) = found
    assert service_id == 0
    assert state_hash.digest == combine(b"a" * 16, b"b" * 16)


def test_lengths_of_further_parts_are_checked() -> None:
    assert unpack_lengths(pack_lengths([5, 6])) == [5, 6]
    for row in (b"1234567", pack_lengths([-1]), pack_lengths(range(10))):
        with pytest.raises(DecodeError):
            unpack_lengths(row)
