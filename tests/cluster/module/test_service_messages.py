"""Messages of the service into the log (cluster-consensus.md §14)."""

import pytest

from ordo.cluster.module.sessions.service_messages import POLL_LIMIT, PendingServiceMessages, first_log_session_id
from ordo.runtime.errors import ClusterError


def _append_into(log: list[tuple[int, bytes]], room: int = 1000):  # type: ignore[no-untyped-def]
    def append(session_id: int, payload: bytes) -> bool:
        if len(log) == room:
            return False
        log.append((session_id, payload))
        return True

    return append


def test_the_first_id_of_service_zero_is_the_one_of_the_worked_example() -> None:
    assert first_log_session_id(0) + 1 == int.from_bytes(bytes.fromhex("0100000000000080"), "little", signed=True)


def test_each_message_is_appended_once_by_a_leadership() -> None:
    pending = PendingServiceMessages()
    log: list[tuple[int, bytes]] = []
    for payload in (b"a", b"b"):
        pending.enqueue(payload)
    assert pending.append_pending(_append_into(log)) == 2
    assert pending.append_pending(_append_into(log)) == 0
    pending.execute(log[0][0])
    pending.enqueue(b"c")
    assert pending.append_pending(_append_into(log)) == 1
    assert [payload for _, payload in log] == [b"a", b"b", b"c"]


def test_a_new_leader_appends_what_was_not_executed() -> None:
    pending = PendingServiceMessages()
    log: list[tuple[int, bytes]] = []
    for payload in (b"a", b"b"):
        pending.enqueue(payload)
    pending.append_pending(_append_into(log))
    pending.execute(log[0][0])
    pending.lose_leadership()
    again: list[tuple[int, bytes]] = []
    pending.append_pending(_append_into(again))
    assert [payload for _, payload in again] == [b"b"]


def test_a_message_that_is_in_the_log_already_is_dropped_on_arrival() -> None:
    pending = PendingServiceMessages()
    pending.execute(first_log_session_id(0) + 1)
    pending.enqueue(b"a")
    assert len(pending) == 0
    pending.enqueue(b"b")
    assert [payload for _, payload in pending.snapshot()] == [b"b"]


def test_a_full_log_stops_the_batch_and_a_batch_is_bounded() -> None:
    pending = PendingServiceMessages()
    log: list[tuple[int, bytes]] = []
    for _ in range(POLL_LIMIT + 5):
        pending.enqueue(b"x")
    assert pending.append_pending(_append_into(log, room=3)) == 3
    assert pending.append_pending(_append_into(log)) == POLL_LIMIT
    assert pending.append_pending(_append_into(log)) == 2


def test_restore_refuses_ids_that_are_not_consecutive() -> None:
    pending = PendingServiceMessages()
    base = first_log_session_id(0)
    pending.restore(base + 3, base, [(base + 1, b"a"), (base + 2, b"b")])
    assert len(pending) == 2
    with pytest.raises(ClusterError, match="not consecutive"):
        pending.restore(base + 3, base, [(base + 2, b"b")])
