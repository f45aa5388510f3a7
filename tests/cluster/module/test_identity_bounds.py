"""How many identities one principal may open, before anything goes into the log."""

from __future__ import annotations

from typing import Any

from ordo.cluster.module.sessions.identity_bounds import IdentityBounds
from ordo.cluster.module.sessions.sessions import ClusterSession
from ordo.cluster.wire import ordo_codecs
from ordo.service_api.requests import OpenStatus, RequestLimits

HOUR = 3_600_000
BOUND = 3
IMAGE: Any = object()


class Sessions:
    """One of each principal, by its name."""

    def __init__(self, *principals: bytes) -> None:
        self.told: list[Any] = []
        self._sessions = {
            number: ClusterSession(number, 7, 96, 102, "aeron:udp?endpoint=localhost:1", principal)
            for number, principal in enumerate(principals, start=1)
        }

    def get(self, session_id: int) -> ClusterSession | None:
        return self._sessions.get(session_id)

    def may_ask(self, session_id: int, image: Any) -> bool:
        return image is IMAGE

    def tell(self, session: ClusterSession, event: bytes) -> None:
        session.events.append(event)
        found = ordo_codecs.decode(event)
        assert found is not None and found[0] is ordo_codecs.IDENTITY_OPENED
        self.told.append(found[1])


class Door:
    def __init__(self, *principals: bytes, of_principal: int = BOUND) -> None:
        self.sessions, self.refused = Sessions(*principals), list[str]()
        self.bounds = IdentityBounds(self.sessions, of_principal, self.refused.append)

    def open(self, session_id: int, name: int, time: int = 0, known_position: int = 0, image: Any = IMAGE) -> bool:
        message = ordo_codecs.OPEN_IDENTITY.encode(
            leadership_term_id=4,
            cluster_session_id=session_id,
            timestamp=0,
            identity_high=name,
            identity_low=1,
            incarnation=100 + name,
            known_position=known_position,
        )
        return self.bounds.admits(image, message, time)


def test_one_principal_leaves_room_for_others_and_is_told() -> None:
    door = Door(b"greedy", b"modest")
    assert [door.open(1, name) for name in range(BOUND)] == [True] * BOUND
    assert not door.open(1, 50) and not door.open(1, 51)
    assert door.open(2, 60), "another principal's"
    assert [(one.status, one.incarnation) for one in door.sessions.told] == [
        (OpenStatus.FULL, 150),
        (OpenStatus.FULL, 151),
    ]
    (line,) = door.refused
    assert "'greedy' has opened 3 identities within an hour" in line and "max_identities_per_principal" in line


def test_identities_that_it_has_are_opened_again() -> None:
    door = Door(b"greedy")
    for name in range(BOUND):
        assert door.open(1, name)
    assert door.open(1, 0), "as a client does that reconnects"
    assert door.open(1, 70, known_position=4096), "a new leader has not seen it; the service knows it or refuses it"
    assert not door.open(1, 71, known_position=-1)


def test_after_an_hour_there_is_room_again() -> None:
    door = Door(b"greedy")
    for name in range(BOUND):
        assert door.open(1, name, time=name)
    assert not door.open(1, 50, time=HOUR)
    assert door.open(1, 50, time=HOUR + 1)
    assert not door.open(1, 51, time=HOUR + 1)
    assert not door.open(1, 52, time=HOUR + 1)
    assert len(door.refused) == 2, "a line each time that the bound is met"


def test_a_stranger_spends_nothing_of_a_principals_share() -> None:
    door = Door(b"desk")
    for name in range(5 * BOUND):
        assert door.open(1, name, image=object()), "the sequencer refuses it, for the session is not this stream's"
    assert [door.open(1, name) for name in range(BOUND)] == [True] * BOUND
    assert not door.bounds.admits(IMAGE, b"cut short", 0)


def test_nobody_is_bounded_by_a_name_that_all_have_and_a_new_leader_counts_anew() -> None:
    door = Door(b"", b"desk")
    assert all(door.open(1, name) for name in range(5 * BOUND))
    for name in range(BOUND):
        door.open(2, name)
    door.bounds.clear()
    assert door.open(2, 80)


def test_the_default_leaves_a_quarter() -> None:
    kept = RequestLimits().identities_max
    door = Door(b"greedy", b"modest", of_principal=0)
    assert all(door.open(1, name) for name in range(kept * 3 // 4))
    assert not door.open(1, kept)
    assert door.open(2, 0)


def test_what_is_remembered_is_bounded_whatever_principals_there_are() -> None:
    kept = RequestLimits().identities_max
    door = Door(*(b"%d" % number for number in range(4)), of_principal=kept)
    for session_id in range(1, 5):
        assert all(door.open(session_id, name) for name in range(kept))
    assert sum(len(names) for names in door.bounds._opened.values()) == 2 * kept == door.bounds._count
