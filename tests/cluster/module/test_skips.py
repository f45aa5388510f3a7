"""What a member whose service stands still says of the records that others fail at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.module.versions.skips import Failure, Skips
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import FailureVerdict
from ordo.cluster.wire.succession import IS_OVER

TOLD, FAILED_AT = 50, 200


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (TOLD, FailureVerdict.EXECUTED),
        (100, FailureVerdict.EXECUTED),
        (FAILED_AT, FailureVerdict.FAILED),
        (300, FailureVerdict.UNKNOWN),
    ],
)
def test_what_is_before_the_own_failure_was_executed(position: int, expected: FailureVerdict) -> None:
    """It failed in the middle of a batch, and has told how far it is as of before that. Seed 300407: two members that
    stood at different records waited for each other, one at an error of its own."""
    sent: list[tuple[int, bytes]] = []
    parts: dict[str, Any] = dict.fromkeys(("host", "store"), SimpleNamespace(is_log_over=False))
    contacts = SimpleNamespace(send=lambda member_id, message: sent.append((member_id, message)))
    replication: Any = SimpleNamespace(core=SimpleNamespace(), sequencer=SimpleNamespace(), contacts=contacts)
    counters: Any = SimpleNamespace(service_positions=[SimpleNamespace(value=TOLD)])
    skips = Skips(**parts, replication=replication, counters=counters, own_id=1, restores=True, order=lambda _: True)
    skips._failures[0] = Failure(FAILED_AT, False, True, b"ValueError", b"poison")
    report: Any = SimpleNamespace(
        log_position=position, member_id=2, is_held=0, wants_skip=1, error=b"RuntimeError", text=b"of this member alone"
    )
    skips.handlers[ordo_codecs.FAILURE_REPORT](report, 0)
    ((member_id, message),) = sent
    answer: Any = ordo_codecs.FAILURE_ANSWER.decode(message)
    assert (member_id, answer.log_position, FailureVerdict(answer.verdict)) == (2, position, expected)


def test_nothing_is_left_out_behind_the_end_of_the_log() -> None:
    """A standby goes on with it, and would not know of that."""
    appended: list[bytes] = []
    parts: dict[str, Any] = dict.fromkeys(("host", "store"), SimpleNamespace(is_log_over=True))
    sequencer = SimpleNamespace(leading_term_id=1, append=appended.append)
    replication: Any = SimpleNamespace(core=SimpleNamespace(leader_member_id=1), sequencer=sequencer)
    parts["host"].transfer = SimpleNamespace(is_under_way=False)
    skips = Skips(
        **parts, replication=replication, counters=parts["store"], own_id=1, restores=True, order=lambda _: True
    )
    skips._failures[0] = Failure(FAILED_AT, False, True, b"ValueError", b"poison")
    answer: Any = ordo_codecs.SKIP_RESPONSE.decode(
        skips.on_skip_request(SimpleNamespace(correlation_id=7, log_position=FAILED_AT))  # type: ignore[arg-type]
    )
    assert IS_OVER in str(answer.refusal) and not appended
