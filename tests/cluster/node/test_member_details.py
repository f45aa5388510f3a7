"""What a member tells of itself is checked before it is believed."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.admin.member_details import HeldSnapshot, HeldTerm, parse_details
from ordo.runtime.errors import DecodeError

SESSION = {"id": 1, "opened": 64, "principal": "desk", "address": "10.0.0.9:20121", "active_ms": -1}
TOLD: dict[str, Any] = {
    "log_start": 0,
    "terms": [[0, 0], [1, 4096]],
    "snapshots": [[640, 0, 1000]],
    "sessions": [SESSION],
    "errors": [{"count": 2, "last_ms": 5, "text": "x"}],
}


def test_what_a_member_tells() -> None:
    found = parse_details(TOLD)
    assert found.snapshots == [HeldSnapshot(640, 0, 1000)]
    assert found.terms[-1] == HeldTerm(1, 4096)
    assert (found.sessions[0].principal, found.errors[0].text) == ("desk", "x")
    assert not found.sessions[0].is_held
    assert parse_details({**TOLD, "sessions": [{**SESSION, "held": True}]}).sessions[0].is_held
    assert found.state_hash_position == -1, "an older release does not tell it"


@pytest.mark.parametrize(
    "wrong",
    [
        {"terms": None},
        {"terms": [[1]]},
        {"terms": [[1, 2, 3]]},
        {"snapshots": [[640, 0, 1 << 63]]},
        {"snapshots": [[640, 0, "x"]]},
        {"snapshots": 7},
        {"sessions": [{**SESSION, "id": None}]},
        {"sessions": [[1, 2]]},
        {"sessions": [{}]},
        {"errors": [{"count": float("inf"), "last_ms": 5, "text": "x"}]},
        {"log_start": []},
    ],
)
def test_what_is_none_is_an_error_of_its_own(wrong: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match="describes it"):
        parse_details({**TOLD, **wrong})
