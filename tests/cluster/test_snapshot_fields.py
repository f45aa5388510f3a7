"""Each field of each part of a snapshot, dropped in turn where it is written and where it is read, must be missed.

A restored snapshot that forgot a session's `previous_session_id` was found by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

from ordo.cluster.container.tables import message_numbers
from ordo.cluster.container.tables.message_numbers import MessageNumbers, _Numbers
from ordo.cluster.module.sessions.service_messages import first_log_session_id
from ordo.cluster.module.sessions.sessions import ClusterSession
from ordo.cluster.module.state import module_snapshot
from ordo.cluster.module.state.module_snapshot import ModuleSnapshot, PendingTracker, SnapshotPoint
from ordo.cluster.module.state.state_store import Skip
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.codecs import ClusterTimeUnit
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.cluster.wire.log_identity import LogIdentity
from ordo.cluster.wire.members import parse_members
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.cluster.wire.snapshots.container_snapshot import ServiceSnapshot
from ordo.service_api.messages.logged import LoggedSchema
from ordo.service_api.request_ids import PrincipalIds
from ordo.service_api.requests import IdentityState
from ordo.service_api.service import TimeUnit
from tests.mutants.functions import argument_mutants


@dataclass
class Counted:
    """A session of a container."""

    id: int
    next_number: int
    response_stream_id: int = 102
    response_channel: str = "aeron:udp?endpoint=client:1"
    encoded_principal: bytes = b"desk"


def check_numbers() -> None:
    """What is restored of the numbers of sessions is what was there."""
    numbers, sessions = MessageNumbers(), {7: Counted(7, 31)}
    numbers._open[7] = _Numbers(21, 24, 5, gaps=[(25, 27)])
    numbers._closed[6] = _Numbers(11, 12, 4, 19, [(13, 15)])
    rows = []
    for message in numbers.snapshot(sessions):
        found = ordo_codecs.decode_any(message)
        assert found is not None
        rows.append(found[1])
    restored, others = MessageNumbers(), {7: Counted(7, -1)}
    restored.restore(rows, others)
    assert restored._closed == numbers._closed
    assert {one: replace(row, next=-1) for one, row in restored._open.items()} == numbers._open
    assert others[7].next_number == 31


def tracker_of(service_id: int) -> PendingTracker:
    base = first_log_session_id(service_id)
    return PendingTracker(service_id, base + 4, base + 1, [(base + 2, b"one"), (base + 3, b"two")])


def check_module() -> None:
    """The module's part reads back as it was."""
    members = [parse_members(f"{one},a:1,a:2,a:3,a:4,a:5") for one in (0, 1)]
    original = ModuleSnapshot(
        SnapshotPoint(800, 3, 5, ClusterTimeUnit.NANOS),
        9,
        [ClusterSession(1, 81, 256, 102, "aeron:udp?endpoint=a:1"), ClusterSession(4, 82, 512, 103, "x")],
        [(55, 1000), (56, 2000)],
        [tracker_of(number) for number in range(2)],
        NamedConfiguration(*members),
        [(1, 32), (3, 640)],
        [Skip(96, 192, 1001, b"ValueError")],
        2,
        {1: 6},
        LogIdentity(160, b"c" * 16),
        [LoggedSchema(640, 0, b"d" * 32, b"first"), LoggedSchema(720, 1, b"e" * 32, b"second")],
    )
    is_whole = module_snapshot.decode(list(module_snapshot.encode(original))) == original
    assert is_whole


def check_container() -> None:
    """The container's part reads back as it was."""
    answers = [(3, 640, 1, b"answer"), (4, 704, 2, b"x" * (container_snapshot.ANSWER_PART_BYTES + 9))]
    identity = IdentityState(b"i" * 16, b"desk", 2, 320, 5, 1, 1002, answers)
    ids = PrincipalIds(b"desk", b"r" * (container_snapshot.ANSWER_PART_BYTES + 9))
    report = {"leadership_term_id": 3, "cluster_session_id": 7, "timestamp": 1, "app_version": 1}
    made = {
        "position": 9,
        "outputs_made": 2,
        "outputs_executed": 1,
        "flags": 0,
        "group_length": 0,
        "instance_length": 0,
    }
    names = ("written_length", "canary_length", "group_length", "instance_length")
    seen = {"log_position": 9, "input_position": 8, "count": 1, "output_index": 0, "kind": 1, **dict.fromkeys(names, 0)}
    numbers = message_numbers._encode(7, _Numbers(21, 24, 5, gaps=[(25, 27)]), 31, True)
    feed = ordo_codecs.FEED_STATE.encode(sequence=4, position=64, log_position=320, topic="prices")
    parts: dict[str, Any] = {
        "consumers": (b"state", b"y" * 70_000),
        "request_ids": (ids,),
        "takes_ids": True,
        "takes_output_ids": True,
        "sequence": 1_234_567,
        "keeps_sequence": True,
        "numbers": (numbers,),
        "feeds": (feed,),
        "instances": (ordo_codecs.APP_REPORT.encode(**report, **made),),
        "state_hash": b"h" * 32,
        "differences": (ordo_codecs.APP_DIFFERENCE.encode(**report, **seen),),
    }
    original = ServiceSnapshot(800, 3, TimeUnit.MICROS, 5, (Counted(7, 31),), ((55, 1000),), (identity,), **parts)
    found = container_snapshot.decode(iter(list(container_snapshot.encode(original))))
    session = found.sessions[0]
    assert (session.cluster_session_id, session.response_stream_id) == (7, 102)
    assert (session.response_channel, session.encoded_principal) == ("aeron:udp?endpoint=client:1", b"desk")
    assert [row.previous_session_id for row in found.numbers] == [5]
    assert [(row.sequence, row.position, row.log_position, row.topic) for row in found.feeds] == [
        (4, 64, 320, "prices")
    ]
    same = {name: getattr(original, name) for name in ("sessions", "numbers", "feeds")}
    is_whole = found._replace(**same) == original  # pytest would print the difference of each mutant, for a second each
    assert is_whole, "the others differ"


class Part(NamedTuple):
    """One part of a snapshot: who writes and reads it, and what must hold."""

    owner: Any
    names: tuple[str, ...]
    check: Callable[[], None]


PARTS = (
    Part(MessageNumbers, ("snapshot", "restore"), check_numbers),
    Part(message_numbers, ("_encode",), check_numbers),
    Part(module_snapshot, ("encode", "_encode_tracker", "_marker", "decode", "_decode_into"), check_module),
    Part(
        container_snapshot,
        (
            *("encode", "_encode_consumer", "_add_consumer", "_encode_identity", "_decode_identity", "_add_answer"),
            *("_encode_ids", "_marker", "decode"),
        ),
        check_container,
    ),
)
HARMLESS = {
    "of ClusterError": "only in the text of an error",
    "of SnapshotError": "only in the text of an error",
    "of len,": "only of a check that refuses what is damaged",
    "leadership_term_id": "its marker has it; the messages have it for Aeron's sake",
    "NULL_VALUE of": "is that of no member, whatever it is",
    "member_id=NULL_VALUE": "the same",
    "log_position of ordo_codecs.STATE_HASH": "the same",
    "time_of_last_activity": "Aeron's field, which no member reads",
    "close_reason=NULL_ENUM": "the same",
    "**snapshot.trackers[0].describe()": "Aeron's second copy of what the tracker of service 0 has",
    "SnapshotMark.": "a marker before all others is the first, any other the last",
    "trackers=[]": "empty already",
    "[] of IdentityState": "empty already",
    "parts=len(parts)": "the parts are numbered; how many there are is for tools",
    "message of _check_marker": "only in the text of an error",
}
"""What may be dropped, and why: by a part of a mutant's name."""


def mutants_of(part: Part) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    for name in part.names:
        for place, mutant in argument_mutants(vars(part.owner)[name]):
            yield name, place, mutant


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.owner.__name__.rpartition(".")[2])
def test_what_is_dropped_of_a_snapshot_is_missed(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    part.check()
    survivors, count = [], 0
    for name, place, mutant in mutants_of(part):
        count += 1
        with monkeypatch.context() as patch:
            patch.setattr(part.owner, name, mutant)
            try:
                part.check()
            except Exception:
                continue
        survivors.append(f"{name}: {place}")
    assert count > 5
    found = [one for one in survivors if not any(text in one for text in HARMLESS)]
    assert not found, "\n".join(found)
