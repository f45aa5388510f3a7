"""A member that waits for its leader's log for long says why, and what to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.module.log.join_watch import PATIENCE_NS, JoinWatch
from ordo.consensus.state.states import ElectionState

STEP_NS = PATIENCE_NS // 10


class Member:
    def __init__(self, notified_position: int) -> None:
        self.core: Any = SimpleNamespace(
            state=ElectionState.FOLLOWER_CATCHUP_AWAIT, append_position=4096, leader_member_id=2
        )
        sequencer: Any = SimpleNamespace(notified_position=notified_position)
        contacts: Any = SimpleNamespace(own=SimpleNamespace(catchup="10.0.0.1:9013"))
        self.lines: list[str] = []
        self.watch = JoinWatch(self.core, sequencer, contacts, self.lines.append)  # type: ignore[arg-type]
        self._now_ns = 0

    def wait(self, steps: int, state: ElectionState = ElectionState.FOLLOWER_CATCHUP_AWAIT) -> None:
        self.core.state = state
        for _ in range(steps):
            self._now_ns += STEP_NS
            self.watch.work(self._now_ns)


@pytest.mark.parametrize(
    ("notified_position", "text"),
    [(1024, "is committed up to 1024 only, less than this member has"), (8192, "its datagrams reach 10.0.0.1:9013")],
)
def test_a_log_that_does_not_come_is_one_line(notified_position: int, text: str) -> None:
    member = Member(notified_position)
    member.wait(10)
    assert member.lines == []
    member.wait(1)
    (line,) = member.lines
    assert "waits for the log from position=4096 on, which member 2 does not send" in line and text in line
    assert "\n" not in line
    member.wait(10)
    assert member.lines == [line, line], "again while it lasts"


def test_elections_in_between_do_not_end_the_wait_and_progress_does() -> None:
    member = Member(1024)
    member.wait(6)
    member.wait(6, ElectionState.CANVASS)
    member.wait(4)
    assert member.lines == []
    member.wait(1)
    assert len(member.lines) == 1
    member.wait(9)
    member.core.append_position = 8192
    member.wait(10)
    assert len(member.lines) == 1
    member.wait(9, ElectionState.CLOSED)
    member.wait(9)
    assert len(member.lines) == 1
