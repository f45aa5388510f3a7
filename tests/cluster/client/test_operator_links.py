"""An operator's connections to members that die and come back, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest

from ordo.cluster.client.operator import MemberLook, OperatorClient
from ordo.cluster.module.operators.operators import MemberAnswers, Operators
from ordo.cluster.wire.ordo_codecs import OperatorOrder
from ordo.runtime.errors import ClusterTimeoutError, OutcomeUnknownError
from ordo.runtime.native.counters import local_counter
from ordo.runtime.native.time_units import MILLISECOND_NS
from ordo.transport.streams.image import Image
from tests.cluster.client.session_members import Member, SessionWorld

IDS = count(100)


class OperatedMember(Member):
    """A member that operators look into. `life` tells one process of it from the next."""

    def __init__(self, world: SessionWorld, member_id: int, life: int = 1) -> None:
        super().__init__(world, member_id)
        self.life = life
        answers = MemberAnswers(self.look, dict, dict, lambda *_: None)
        self.operators = Operators(self, answers, self.client, local_counter(0), None, lambda: next(IDS))

    def look(self) -> dict[str, Any]:
        return {"member_id": self.member_id, "life": self.life}

    def on_invalid_request(self, detail: str) -> None:
        """Nobody is refused here."""

    def announce(self, event: str, text: str) -> None:
        """No order is given here."""

    def work(self, now_ns: int) -> None:
        self.driver.do_work(now_ns)
        self.client.do_work(now_ns)
        now_ms = now_ns // MILLISECOND_NS
        for image in self.ingress.images:
            image.poll_messages(partial(self._take, image, now_ms), 50)
        if not self.silent:
            self.operators.work(now_ms)

    def _take(self, image: Image, now_ms: int, message: bytes, _: object) -> None:
        self.operators.on_message(message, image, now_ms)


class OperatorWorld(SessionWorld):
    """Members that operators look into, and that are killed."""

    def __init__(self) -> None:
        super().__init__(2)
        for member in self.members:
            member.close()
        self.members: list[Any] = [OperatedMember(self, member_id) for member_id in range(2)]

    def operator(self) -> OperatorClient:
        process, transport = self.client_process()
        return OperatorClient(self.endpoints.values(), egress=f"{process.address}:0", transport=transport)

    def kill(self, member_id: int) -> None:
        """End a process that tells nobody."""
        self.down.add(member_id)
        self.network.hosts[self.address(member_id)].close()

    def start(self, member_id: int) -> None:
        self.members[member_id] = OperatedMember(self, member_id, self.members[member_id].life + 1)
        self.down.discard(member_id)


@pytest.fixture
def world() -> Iterator[OperatorWorld]:
    world = OperatorWorld()
    yield world
    world.close()


def lives(client: OperatorClient, timeout_s: float = 0.2) -> list[int | None]:
    """Which life of each member answers, None for none."""
    found = client.look(timeout_s)
    looks = [found[one] for one in client.endpoints]
    return [look.get("life") if isinstance(look, MemberLook) else None for look in looks]


def test_a_member_that_is_back_before_its_connection_counts_as_lost_is_looked_at_again(world: OperatorWorld) -> None:
    client = world.operator()
    assert lives(client) == [1, 1]
    publication = client._links[world.members[0].endpoint].publication
    world.kill(0)
    world.start(0)
    assert lives(client) == [None, 1]
    assert publication is not None and publication.is_connected, "the new process hears the stream"
    seen = [lives(client) for _ in range(10)]
    assert seen[-1] == [2, 1], seen
    assert all(after == 1 for _, after in seen), "the other member is not bothered"


def test_orders_without_an_answer_end_such_a_connection_too(world: OperatorWorld) -> None:
    client = world.operator()
    assert lives(client) == [1, 1]
    endpoint = world.members[0].endpoint
    world.kill(0)
    world.start(0)
    for _ in range(2):
        with pytest.raises(OutcomeUnknownError):
            client.request(endpoint, OperatorOrder.LOOK, timeout_s=0.1)
    assert b'"life":2' in client.request(endpoint, OperatorOrder.LOOK, timeout_s=2.0).payload


def test_one_late_answer_does_not_end_a_connection(world: OperatorWorld) -> None:
    client = world.operator()
    assert lives(client) == [1, 1]
    publication = client._links[world.members[0].endpoint].publication
    for _ in range(3):
        world.members[0].silent = True
        assert lives(client) == [None, 1]
        world.members[0].silent = False
        assert lives(client) == [1, 1]
    assert client._links[world.members[0].endpoint].publication is publication


def test_a_member_that_stays_down_is_named(world: OperatorWorld) -> None:
    client = world.operator()
    assert lives(client) == [1, 1]
    world.kill(0)
    for _ in range(20):
        found = client.look(0.1)[world.members[0].endpoint]
    assert isinstance(found, ClusterTimeoutError) and "does not" in found.message
