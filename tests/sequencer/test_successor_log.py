"""What a rejoin is compared with: members that lag behind the new cluster's beginning, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.protocol.own_codecs import ToldIdentity
from ordo.backup.query import Description
from ordo.runtime.errors import ClusterTimeoutError
from ordo.standby.successor_log import SuccessorLog
from ordo.transport.client.client_transport import ClientTransport
from tests.sequencer.test_log_follower import LogWorld
from tests.transport.driver_world import S

COMMON, BEHIND = range(20), range(20, 40)
TIMEOUT_S = 8.0


class Successors(LogWorld):
    """Three members that have a log, of which the first is asked first and may have less of it than the others."""

    def start_members(self) -> None:
        self.start()
        self.stop_reading()
        self.common = self.append(COMMON)
        self.end = self.append(BEHIND)
        self.commit(self.end)
        for node in self.nodes_of_log:
            node.told = ToldIdentity(1, 2, self.common, self.end)

    def drive(self) -> int:
        self.cycle()
        return self.clock.now()

    def connect(self, monkeypatch: pytest.MonkeyPatch) -> SuccessorLog:
        settings = [node.settings for node in self.nodes_of_log]
        members = tuple(SimpleNamespace(archive=str(index)) for index in range(3))
        transport = SimpleNamespace(
            client=self.client_node.client,
            clock=self.clock,
            drive=self.drive,
            park=lambda _: None,
            close=lambda before: before(),
        )
        answer: Any = Description(0, 0, members, None)  # type: ignore[arg-type]
        monkeypatch.setattr(ClientTransport, "embedded", lambda *_, **__: transport)
        monkeypatch.setattr(SuccessorLog, "_ask", lambda *_: answer)
        monkeypatch.setattr(ArchiveClientSettings, "at", lambda address, **_: settings[int(address)])
        return SuccessorLog([], b"", None, TIMEOUT_S)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Successors]:
    world = Successors(tmp_path, step_ns=500_000)
    world.start_members()
    yield world
    world.close()


def positions(found: Iterator[tuple[int, bytes]]) -> list[int]:
    return [position for position, _ in found]


def test_a_member_that_lags_does_not_end_the_log(world: Successors, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = world.connect(monkeypatch)
    own = positions(whole.messages(0))
    whole.close()
    assert len(own) == len(COMMON) + len(BEHIND) and own[-1] == world.end
    world.nodes_of_log[0].commit.set(own[4])
    with world.connect(monkeypatch) as log:
        assert log.origin.position == world.common
        found = positions(log.messages(0))
        assert found[: len(COMMON)] == own[: len(COMMON)], "what the others have is not taken for lost"
        assert positions(log.messages(own[9]))[0] == own[10], "the first member asked ends before"


@pytest.mark.parametrize("begin", [0, 9])
def test_members_that_all_lag_are_waited_for_and_told(
    world: Successors, monkeypatch: pytest.MonkeyPatch, begin: int
) -> None:
    with world.connect(monkeypatch) as log:
        own = positions(log.messages(0))
        world.commit(own[4])
        start = own[begin - 1] if begin else 0
        with pytest.raises(ClusterTimeoutError, match=rf"position={own[4]}.*"):
            positions(log.messages(start))
        found = log.messages(start)
        if not begin:
            assert positions(islice(found, 5)) == own[:5]
        catch_up(world, lambda: world.commit(world.end))
        rest = positions(found)
        assert rest[: len(COMMON) - max(begin, 5)] == own[max(begin, 5) : len(COMMON)]


def catch_up(world: Successors, act: Callable[[], object]) -> None:
    """Have it happen after four seconds, which is longer than a verdict on a position takes."""
    due_ns, turn = world.clock.now() + 4 * S, world.cycle

    def cycle() -> None:
        turn()
        if world.clock.now() >= due_ns:
            act()

    world.cycle = cycle  # type: ignore[method-assign]


def test_a_position_where_no_record_begins_ends_it(world: Successors, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.connect(monkeypatch) as log:
        assert positions(log.messages(32)) == []
