"""When it is certain that a place of a topic never existed, and when it is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.follow.recordings.position_verdict import BEYOND_PATIENCE_NS
from ordo.follow.topics.beginning_verdict import BeginningVerdict
from ordo.runtime.errors import ArchiveError

NODES = [ArchiveClientSettings.at(f"127.0.0.1:{port}") for port in (1, 2, 3)]
END = 640
"""Up to here the topic was read."""


def source(index: int, *, end: int = END, is_leader: bool = False, has_nothing: bool = False) -> Any:
    return SimpleNamespace(
        address=NODES[index].control_channel,
        end_position=-1 if has_nothing else end,
        has_answered=not has_nothing,
        has_nothing=has_nothing,
        is_leader=is_leader,
    )


def is_refused(verdict: BeginningVerdict, sources: list[Any], since_ns: int = 0) -> bool:
    """Whether it is, once these nodes have said so for long enough."""
    for now_ns in (since_ns, since_ns + BEYOND_PATIENCE_NS):
        for one in sources:
            verdict.note(one, END, now_ns)
    try:
        verdict.check()
    except ArchiveError:
        return True
    return False


def wanting(sequence: int, last: int = 5) -> BeginningVerdict:
    verdict = BeginningVerdict(NODES, "trades", None, sequence)
    verdict.note_before(last)
    return verdict


def test_all_nodes_are_sure_and_most_are_with_their_leader() -> None:
    assert is_refused(wanting(7), [source(0), source(1), source(2)])
    assert is_refused(wanting(7), [source(0, is_leader=True), source(1)])
    assert is_refused(wanting(7), [source(0, has_nothing=True, is_leader=True), source(1)])


@pytest.mark.parametrize(
    "sources",
    [
        [source(0), source(1)],
        [source(0, is_leader=True)],
        [source(0), source(1), source(2, end=END + 32)],
        [source(0), source(1), source(2, end=-1)],
    ],
)
def test_fewer_are_not(sources: list[Any]) -> None:
    assert not is_refused(wanting(7), sources)


def test_the_next_message_is_waited_for() -> None:
    assert not is_refused(wanting(6), [source(0), source(1), source(2)])
    nothing = [source(index, has_nothing=True) for index in range(3)]
    assert not is_refused(BeginningVerdict(NODES, "trades", None, 1), nothing)
    assert is_refused(BeginningVerdict(NODES, "trades", None, 2), nothing)


def test_a_recording_without_messages_says_nothing() -> None:
    """What it has had was deleted: what it ended with is not known."""
    assert not is_refused(BeginningVerdict(NODES, "trades", None, 7), [source(0), source(1), source(2)])


def test_whoever_comes_further_is_given_the_time_anew() -> None:
    verdict, everybody = wanting(900), [source(0), source(1), source(2)]
    for last in range(6, 12):
        for one in everybody:
            verdict.note(one, END, last * (BEYOND_PATIENCE_NS - 1))
        verdict.note_before(last)
        verdict.check()
    assert is_refused(verdict, everybody, 100 * BEYOND_PATIENCE_NS)
    with pytest.raises(ArchiveError, match="sequence 900 was never published: its last message has sequence 11"):
        verdict.check()


def test_what_has_begun_is_not_judged() -> None:
    verdict = wanting(7)
    verdict.note_begun()
    assert not is_refused(verdict, [source(0), source(1), source(2)])
    assert not verdict.is_open
