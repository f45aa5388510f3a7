"""Hooks over a source and a receiver that tests hold in hand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from ordo.consumers.shared_member import Delivery
from ordo.follow.entries import EntryKind, LogEntry
from ordo.gateway.webhooks.hooks import OrderedHook, ParallelHook
from ordo.gateway.webhooks.posts import Outcome, Post, ReceiverGoneError
from tests.gateway.webhooks.test_posts import SETTINGS

QUICK = replace(SETTINGS, retry_min_s=1e-6, retry_max_s=1e-6)
REFUSED = Outcome("status 503")


def entry(position: int) -> LogEntry:
    return LogEntry(position, EntryKind.MESSAGE, 0, 1, 7, b"%d" % position)


class Source:
    """Hands out entries, and notes what is committed; `after` runs whenever nothing is left."""

    def __init__(self, positions: Iterable[int], when_empty: Callable[[], object]) -> None:
        self.entries = deque(entry(one) for one in positions)
        self.when_empty = when_empty
        self.epoch = 1
        self.is_paused = False
        self.committed: list[int] = []
        self.changes = 0

    def take(self, limit: int) -> list[LogEntry]:
        return [self.entries.popleft() for _ in range(min(limit, len(self.entries)))]

    async def await_change(self) -> None:
        await asyncio.sleep(0)
        self.changes += 1
        if not self.entries:
            self.when_empty()

    def begin_commit(self, position: int | None = None) -> None:
        assert position is not None
        self.committed.append(position)


class Receiver:
    """Answers as it is told, then takes everything."""

    def __init__(self, *answers: Outcome | Callable[[], Outcome]) -> None:
        self.answers = deque(answers)
        self.positions: list[int] = []
        self.under_way = self.most_under_way = 0

    async def send(self, post: Post) -> Outcome:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.positions.append(post.position)
        answer = self.answers.popleft() if self.answers else Outcome()
        return answer if isinstance(answer, Outcome) else answer()


def ordered(source: Source, receiver: Receiver, stopped: asyncio.Event) -> None:
    asyncio.run(OrderedHook(QUICK, source, receiver, stopped).run())


def test_each_message_is_sent_until_it_is_taken_and_only_then_the_next() -> None:
    stopped = asyncio.Event()
    source = Source([100, 200, 300], lambda: stopped.set() if len(source.committed) == 3 else None)
    receiver = Receiver(Outcome(), REFUSED, REFUSED)
    ordered(source, receiver, stopped)
    assert receiver.positions == [100, 200, 200, 200, 300]
    assert source.committed == [100, 200, 300]
    assert receiver.most_under_way == 1


def test_what_was_not_taken_is_not_committed_when_the_hook_ends() -> None:
    stopped = asyncio.Event()

    def end() -> Outcome:
        stopped.set()
        return REFUSED

    source, receiver = Source([100, 200, 300], stopped.set), Receiver(Outcome(), end)
    ordered(source, receiver, stopped)
    assert (receiver.positions, source.committed) == ([100, 200], [100])


def test_a_post_that_is_under_way_at_the_end_counts() -> None:
    stopped = asyncio.Event()

    def end() -> Outcome:
        stopped.set()
        return Outcome()

    source, receiver = Source([100, 200], stopped.set), Receiver(end)
    ordered(source, receiver, stopped)
    assert (receiver.positions, source.committed) == ([100], [100])


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_member_that_was_replaced_sends_and_commits_nothing_more(is_taken: bool) -> None:
    stopped = asyncio.Event()

    def replace_member() -> Outcome:
        source.epoch = 2
        return Outcome() if is_taken else REFUSED

    source, receiver = Source([100, 200], stopped.set), Receiver(replace_member)
    ordered(source, receiver, stopped)
    assert (receiver.positions, source.committed) == ([100], [])


def test_a_hook_that_was_moved_leaves_its_rest() -> None:
    stopped = asyncio.Event()

    def move() -> None:
        if source.changes == 3:
            source.epoch = 2
            source.entries.append(entry(200))
        elif source.changes > 3:
            stopped.set()

    source, receiver = Source([100], move), Receiver(Outcome("status 503", retry_after_s=3600.0))
    ordered(source, receiver, stopped)
    assert (receiver.positions, source.committed) == ([100, 200], [200])


def test_a_paused_hook_does_not_even_try_again() -> None:
    stopped = asyncio.Event()

    def pause() -> Outcome:
        source.is_paused = True
        return REFUSED

    def go_on() -> None:
        if source.changes == 3:
            source.is_paused = False
        elif source.changes > 3:
            stopped.set()

    source, receiver = Source([100], go_on), Receiver(pause)
    ordered(source, receiver, stopped)
    assert (receiver.positions, source.committed) == ([100, 100], [100])
    assert source.changes >= 3


def gone() -> Outcome:
    raise ReceiverGoneError("gone")


def test_a_receiver_that_is_gone_ends_the_hook() -> None:
    stopped = asyncio.Event()
    source = Source([100, 200], stopped.set)
    with pytest.raises(ReceiverGoneError):
        ordered(source, Receiver(Outcome(), gone), stopped)
    assert source.committed == [100]


class SharedSource(Source):
    """Hands out deliveries, again after a nack."""

    def __init__(self, positions: Iterable[int], when_empty: Callable[[], object]) -> None:
        super().__init__([], when_empty)
        self.deliveries = deque(Delivery(entry(one), 1, 1) for one in positions)
        self.done: list[int] = []
        self.lost: set[int] = set()
        self.given_up = 0
        self.places = 256
        self.held: set[int] = set()
        self.delays_s: list[float] = []

    def take(self, limit: int) -> list[Delivery]:  # type: ignore[override]
        room = min(limit, self.places - len(self.held), len(self.deliveries))
        taken = [self.deliveries.popleft() for _ in range(room)]
        self.held.update(one.position for one in taken)
        return taken

    async def await_change(self) -> None:
        await asyncio.sleep(0)
        if not self.deliveries:
            self.when_empty()

    def holds(self, delivery: Delivery) -> bool:
        return delivery.position not in self.lost

    def ack(self, delivery: Delivery) -> bool:
        self.done.append(delivery.position)
        self.held.discard(delivery.position)
        return True

    def nack(self, delivery: Delivery, *, delay_s: float = 0.0) -> bool:
        if not self.holds(delivery):
            return False
        self.delays_s.append(delay_s)
        self.held.discard(delivery.position)
        if delivery.counted < QUICK.tries_max:
            self.deliveries.append(Delivery(delivery.entry, delivery.tries + 1, delivery.counted + 1))
        else:
            self.given_up += 1
        return True


def parallel(source: SharedSource, receiver: Receiver, stopped: asyncio.Event) -> None:
    asyncio.run(ParallelHook(QUICK, source, receiver, stopped).run())


def test_many_posts_are_under_way() -> None:
    stopped = asyncio.Event()
    source, receiver = SharedSource([100, 200, 300], stopped.set), Receiver()
    parallel(source, receiver, stopped)
    assert sorted(source.done) == [100, 200, 300]
    assert receiver.most_under_way == 3


class Choosy(Receiver):
    """Refuses some messages while it takes others; nothing at all before so many tries."""

    def __init__(self, *refused: int, down: int = 0) -> None:
        super().__init__()
        self.refused, self.down = refused, down
        self.refusal = Outcome("status 500")

    async def send(self, post: Post) -> Outcome:
        taken = await super().send(post)
        is_down = len(self.positions) <= self.down
        return self.refusal if is_down or post.position in self.refused else taken


def test_only_what_is_refused_while_others_are_taken_is_given_up() -> None:
    stopped = asyncio.Event()

    def bring_another() -> None:
        if source.given_up:
            stopped.set()
        else:
            source.deliveries.append(Delivery(entry(1000 + len(source.done)), 1, 1))

    source, receiver = SharedSource([100, 200, 300, 400], bring_another), Choosy(300, down=100)
    parallel(source, receiver, stopped)
    assert {100, 200, 400} < set(source.done)
    assert 300 not in source.done
    assert source.given_up == 1
    assert receiver.positions.count(300) > QUICK.tries_max


def test_what_the_receiver_cannot_have_seen_is_no_refusal() -> None:
    """Others are taken meanwhile: one of the machines behind its name is down."""
    stopped = asyncio.Event()

    def bring_another() -> None:
        if len(receiver.positions) > 100:
            stopped.set()
        else:
            source.deliveries.append(Delivery(entry(1000 + len(source.done)), 1, 1))

    source, receiver = SharedSource([100, 200], bring_another), Choosy(100)
    receiver.refusal = Outcome("ClientConnectorError: refused", was_sent=False)
    parallel(source, receiver, stopped)
    assert receiver.positions.count(100) > QUICK.tries_max
    assert len(source.done) > QUICK.tries_max
    assert source.delays_s == []


def test_what_is_taken_back_during_its_last_post_is_not_told_as_given_up() -> None:
    """The cluster does not hear of this refusal, and the message is posted again."""
    stopped = asyncio.Event()

    class Losing(Choosy):
        async def send(self, post: Post) -> Outcome:
            outcome = await super().send(post)
            if post.position == 100:
                source.lost.add(100)
            return outcome

    source, receiver = SharedSource([200], stopped.set), Losing(100)
    source.deliveries.append(Delivery(entry(100), QUICK.tries_max, QUICK.tries_max))
    with capture_logs() as told:
        parallel(source, receiver, stopped)
    assert source.done == [200]
    assert [one["event"] for one in told] == ["webhook.retry"]


def test_refused_messages_in_all_places_make_room_for_others() -> None:
    stopped = asyncio.Event()
    two = replace(QUICK, in_flight_max=2)
    source = SharedSource([100, 200, 300], lambda: stopped.set() if 300 in source.done else None)
    receiver = Choosy(100, 200)
    receiver.refusal = Outcome("status 422", is_refusal=True)
    source.places = 2
    asyncio.run(ParallelHook(two, source, receiver, stopped).run())
    assert source.done == [300]
    assert source.given_up == 0


def test_nothing_is_given_up_while_the_receiver_is_down() -> None:
    stopped = asyncio.Event()
    source = SharedSource([100, 200], lambda: stopped.set() if len(source.done) == 2 else None)
    parallel(source, Choosy(down=20 * QUICK.tries_max), stopped)
    assert sorted(source.done) == [100, 200]
    assert source.delays_s == []


def test_a_message_that_was_moved_away_is_not_tried_again() -> None:
    stopped = asyncio.Event()

    def take_away() -> Outcome:
        source.lost.add(100)
        source.when_empty = stopped.set
        return REFUSED

    source = SharedSource([100], lambda: None)
    receiver = Receiver(take_away)
    parallel(source, receiver, stopped)
    assert (receiver.positions, source.done) == ([100], [])


def test_one_line_is_raised_when_a_receiver_is_gone() -> None:
    stopped = asyncio.Event()
    source = SharedSource([100, 200], stopped.set)
    with pytest.raises(ReceiverGoneError):
        asyncio.run(ParallelHook(QUICK, source, Receiver(gone, gone), stopped).run())
    assert source.delays_s == [], "nothing counts as refused"
