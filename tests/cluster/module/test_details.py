"""What a member tells operators of itself at length fits into one message, whatever clients and errors say."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from ordo.cluster.module.operators.member_report import ERRORS_MAX, SESSIONS_MAX, SNAPSHOTS_MAX, TERMS_MAX, Details
from ordo.cluster.module.operators.operators import PAYLOAD_BYTES_MAX
from ordo.cluster.module.sessions.sessions import ClusterSession
from ordo.cluster.module.state.state_store import EVIDENCE_MAX, Evidence, SnapshotEntry
from ordo.cluster.wire.log_identity import Origin, identity_text
from ordo.runtime.native.error_log import ErrorObservation

LARGE = (1 << 62) + 1
EVIDENCE = Evidence(LARGE, LARGE, LARGE, LARGE, LARGE, LARGE, b"\xff" * 16, b"\xee" * 16)


def session(number: int, principal: bytes = b"\xff\x00" * 2_000) -> ClusterSession:
    channel = "aeron:udp?endpoint=" + "h" * 200 + ":40123"
    return ClusterSession(LARGE + number, 1, LARGE, 102, channel, principal)


def make_table(activity: int | None, *, is_held: bool) -> Any:
    """A Sequencer whose sessions were all heard of then."""
    sessions = SimpleNamespace(get_activity=lambda session_id: activity, get_account=lambda session_id: 0)
    return SimpleNamespace(sessions=sessions, quotas=SimpleNamespace(is_held=lambda account: is_held))


def details(count: int, **more: Any) -> Details:
    snapshots = [SnapshotEntry(LARGE - one, LARGE, 0, LARGE, 1, 2, True) for one in range(count)]
    errors = [ErrorObservation(LARGE, LARGE, LARGE + one, '"\\\n€' * 500) for one in range(count)]
    found: dict[str, Any] = {
        "core": SimpleNamespace(terms=[(LARGE + one, LARGE) for one in range(count)]),
        "log": SimpleNamespace(start_position=LARGE),
        "sequencer": make_table(LARGE, is_held=True),
        "sessions": [session(one) for one in range(count)],
        "levels": SimpleNamespace(newest=LARGE),
        "hashes": SimpleNamespace(agreed_position=LARGE),
        "shelf": SimpleNamespace(valid=lambda: snapshots, list_evidence=lambda: [EVIDENCE] * EVIDENCE_MAX),
        "errors": SimpleNamespace(read=lambda: errors),
    }
    return Details(**cast(Any, found | more))


def test_the_most_that_there_is_to_tell_fits_into_one_message() -> None:
    found = details(500).describe()
    found["identity"] = identity_text(Origin(b"\xff" * 16, LARGE))  # as operator_parts adds it
    assert len(json.dumps(found, separators=(",", ":"))) <= PAYLOAD_BYTES_MAX
    counts = [len(found[name]) for name in ("terms", "snapshots", "sessions", "errors")]
    assert counts == [TERMS_MAX, SNAPSHOTS_MAX, SESSIONS_MAX, ERRORS_MAX]


def test_the_newest_come_last() -> None:
    found = details(100).describe()
    assert found["terms"][-1] == (LARGE + 99, LARGE)
    assert found["snapshots"][-1] == [LARGE, LARGE, LARGE // 1_000_000], "a time of this size is in ns, and told in ms"
    assert [one["id"] for one in found["sessions"]][-1] == LARGE + 99
    assert found["errors"][-1]["last_ms"] == LARGE + 99


def test_a_session_is_told_with_its_principal_and_address() -> None:
    one = ClusterSession(7, 1, 640, 102, "aeron:udp?endpoint=10.0.0.9:40123", b"desk")
    quiet = make_table(None, is_held=False)
    found = details(0, sessions=[one], sequencer=quiet).describe()
    assert found["sessions"] == [
        {"id": 7, "opened": 640, "principal": "desk", "address": "10.0.0.9:40123", "active_ms": -1}
    ]
    odd = ClusterSession(8, 1, 640, 102, "no channel at all")
    assert details(0, sessions=[odd], sequencer=quiet).describe()["sessions"][0]["address"] == ""
