"""What an earlier release says of its log has fewer fields: those that lack are no promise."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from ordo.archive.protocol.own_codecs import LOG_IDENTITY, SCHEMA_ID, is_set
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin, unpack_identity
from ordo.follow.recordings.log_proof import LogProof
from ordo.runtime.sbe import Message

ONE, OTHER = b"1" * 16, b"2" * 16
FIELDS: list[Any] = [
    ("session_id", "i64"),
    ("correlation_id", "i64"),
    ("identity_high", "i64"),
    ("identity_low", "i64"),
    ("identity_position", "i64"),
    ("executed_position", "i64"),
]
VERSIONS: dict[int, Message[Any]] = {
    1: Message("LogIdentity", 85, SCHEMA_ID, 1, fields=FIELDS),
    2: Message("LogIdentity", 85, SCHEMA_ID, 2, fields=[*FIELDS, ("has_index", "i32", 2)]),
}


def said_by(version: int, **flags: int) -> Any:
    made = VERSIONS.get(version, LOG_IDENTITY).encode(
        session_id=1,
        correlation_id=2,
        **unpack_identity(OTHER),
        identity_position=1024,
        executed_position=4096,
        **flags,
    )
    return LOG_IDENTITY.decode(made)


def test_a_flag_that_an_earlier_release_has_not_sent_is_not_set() -> None:
    assert not is_set(said_by(1).has_index) and not is_set(said_by(1).knows_past)
    assert is_set(said_by(2, has_index=1).has_index) and not is_set(said_by(2, has_index=1).knows_past)
    assert is_set(said_by(3, has_index=0, knows_past=1).knows_past)


@pytest.mark.parametrize("version", [1, 2])
def test_a_node_of_an_earlier_release_is_not_asked_what_it_would_never_answer(version: int) -> None:
    """It leaves the question unanswered, so that a reader of such nodes alone would wait for ever."""
    session = mock.Mock(log_identity=said_by(version, **({"has_index": 1} if version == 2 else {})))
    known = KnownCluster(Origin(ONE, 0), "the kept position")
    known.position = 512
    proof = LogProof(session, known, "node0:9014")
    reply, reason = proof.ask()
    assert reply is None and "is of a release that does not tell it" in reason
    assert proof.is_impossible and not session.request.called
