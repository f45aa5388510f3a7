"""Snapshots that differed, as a member tells of them over the network."""

from __future__ import annotations

from typing import Any

import pytest

from ordo.cluster.admin.stored_evidence import parse_evidence
from ordo.cluster.module.state.state_store import Evidence
from ordo.runtime.errors import DecodeError

FOUND = Evidence(960, 1920, 480, 3, -1, 4096, b"\1", b"\2", (5,))


def test_what_a_member_tells() -> None:
    assert parse_evidence([FOUND.describe()]) == [FOUND]


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: 1 << 63} for name in ("log_position", "since_position", "module_recording_id", "length_bytes")),
        *({"more_recording_ids": value} for value in ([1 << 63], 5, ["x"])),
        *({"own_digest": value} for value in (5, "zz")),
        {"found_position": float("inf")},
    ],
)
def test_what_is_none_is_an_error_of_its_own(wrong: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match="this is no list of snapshots that differed"):
        parse_evidence([{**FOUND.describe(), **wrong}])
    with pytest.raises(DecodeError):
        parse_evidence(wrong)
