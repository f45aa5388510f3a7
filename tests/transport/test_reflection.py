"""A driver sends nobody more than came from there, unless its address has answered: no reflection, no amplification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.transport.driver_world import MS, Collector, Feeder, S, World, transfer
from tests.transport.test_hostile_stream import SESSION, frame, setup

HERE, ELSEWHERE, VICTIM = "10.0.0.2", "10.0.0.8", "10.0.0.9"
CHANNEL = f"aeron:udp?endpoint={HERE}:4000"
STREAM = 10
SETUP_LENGTH, STATUS_LENGTH = 40, 36
REPLIES_HELD, SETUPS_HELD = 62, 63


class Reflected:
    """A driver with a subscription; what each address is sent, and what was sent in its name."""

    def __init__(self) -> None:
        self.world = World()
        self.sent: Counter[str] = Counter()
        self.node = self.world.node(HERE)
        self.collector = Collector(self.node.client.add_subscription(CHANNEL, STREAM))
        self.world.run(10 * MS)

    def forge(self, *datagrams: bytes) -> None:
        for datagram in datagrams:
            self.world.network.hosts[HERE].accept((VICTIM, 9), (HERE, 4000), datagram)
            self.sent[VICTIM] += len(datagram)
            self.world.run(5 * MS)

    @property
    def received(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for _, _, (host, _), data in self.world.packets:
            total[host] += len(data)
        return total

    def counted(self, index: int) -> int:
        return self.node.driver.system_counter(index)


@pytest.fixture
def reflected() -> Iterator[Reflected]:
    made = Reflected()
    yield made
    made.world.close()


def test_an_address_that_a_stream_was_set_up_for_is_sent_no_more_than_came_from_it(reflected: Reflected) -> None:
    """40 bytes brought 2,016: a status message every 200 ms until the image was given up."""
    reflected.forge(setup())
    reflected.world.until(lambda: reflected.collector.subscription.images)
    reflected.world.run(15 * S, 5 * MS)
    assert reflected.received[VICTIM] == STATUS_LENGTH
    assert reflected.counted(REPLIES_HELD) > 10


def test_a_gap_that_nobody_fills_is_not_asked_for_without_end(reflected: Reflected) -> None:
    """104 bytes brought 1.2 MB: a NAK every 100 us for ten seconds."""
    reflected.forge(setup(), frame(4096, bytes(32), session=SESSION))
    reflected.world.until(lambda: reflected.collector.subscription.images)
    reflected.world.run(1 * S, 1 * MS)
    reflected.forge(*(frame(8192 * place, bytes(32), session=SESSION) for place in range(1, 4)))
    reflected.world.run(12 * S, 5 * MS)
    assert 0 < reflected.received[VICTIM] <= reflected.sent[VICTIM]
    assert reflected.counted(REPLIES_HELD) > 100


def test_a_publisher_that_goes_on_is_never_held_up(reflected: Reflected) -> None:
    """Heartbeats alone pay for the status messages that they call for, and data for what is asked of it."""
    reflected.world.network.faults.loss = 0.2
    publication = reflected.world.node(ELSEWHERE).client.add_publication(CHANNEL, STREAM)
    reflected.world.until(lambda: publication.is_connected)
    for _ in range(5):
        transfer(reflected.world, Feeder(publication, 300), [reflected.collector])
        reflected.collector.messages.clear()
        reflected.world.run(1 * S, 1 * MS)
    assert publication.is_connected


def bounded(reflected: Reflected, limit: int) -> Any:
    return reflected.node.client.add_publication(f"aeron:udp?endpoint={VICTIM}:7|setup-limit={limit}", STREAM)


def test_an_address_that_does_not_answer_gets_so_many_set_ups(reflected: Reflected) -> None:
    """The limit of a shared publication is the sum of what its owners allow."""
    first = bounded(reflected, 3)
    reflected.world.run(20 * S, 5 * MS)
    assert reflected.received[VICTIM] == 3 * SETUP_LENGTH
    assert reflected.counted(SETUPS_HELD) == 1
    second = bounded(reflected, 2)
    assert second.session_id == first.session_id
    reflected.world.run(20 * S, 5 * MS)
    first.close()
    second.close()
    reflected.world.run(20 * S, 5 * MS)
    assert reflected.received[VICTIM] == 5 * SETUP_LENGTH


def test_an_address_that_has_answered_gets_all_that_it_needs(reflected: Reflected) -> None:
    """It answered the last set-up, went away without a word, and is found when it comes back."""
    publication = bounded(reflected, 3)
    reflected.world.run(150 * MS, 1 * MS)
    there = reflected.world.node(VICTIM)
    for _ in range(2):
        collector = Collector(there.client.add_subscription(f"aeron:udp?endpoint={VICTIM}:7", STREAM))
        reflected.world.until(lambda: publication.is_connected)
        transfer(reflected.world, Feeder(publication, 50), [collector])
        collector.subscription.close()
        reflected.world.until(lambda: not publication.is_connected, 30 * S)
        reflected.world.run(3 * S, 1 * MS)


def test_a_publication_that_its_owner_vouches_for_has_no_limit(reflected: Reflected) -> None:
    bounded(reflected, 1)
    reflected.node.client.add_publication(f"aeron:udp?endpoint={VICTIM}:7", STREAM)
    reflected.world.run(5 * S, 5 * MS)
    assert reflected.received[VICTIM] > 40 * SETUP_LENGTH
