"""One watcher without a cluster: slow ones are bounded, told and given up; gaps and endings are said."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest
from aiohttp import web

from ordo.archive.protocol.codes import ErrorCode
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.topics.feeds import FeedMessage, FeedReader
from ordo.gateway.callers.bounds import NoPlaceError
from ordo.gateway.watching import watchers
from ordo.gateway.watching.channels import EventStream, Socket
from ordo.gateway.watching.watched_items import LogItems, Polled, TopicItems, WatchedItem
from ordo.gateway.watching.watchers import Ending, Reason, Watcher, ending_of, status_of
from ordo.runtime.errors import ArchiveError, ClusterError, ConfigurationError, OrdoError, SessionRejectedError


class MemoryItems:
    """Messages that never end, in polls of ten."""

    place: int | None = 1

    def __init__(self) -> None:
        self.polled = 0
        self.kept = 0
        self.error: OrdoError | None = None

    def poll(self) -> Polled:
        if self.error is not None:
            raise self.error
        begin, self.polled = self.polled, self.polled + 10
        return Polled([WatchedItem(number + 1, "{}") for number in range(begin, begin + 10)], 10)

    async def catch_up(self) -> None:
        pass

    def keep_alive(self) -> None:
        self.kept += 1

    def close(self) -> None:
        pass


class MemoryChannel:
    """A watcher that takes so many polls, and then only what `takes` lets it."""

    def __init__(self, polls: int) -> None:
        self.polls = polls
        self.takes = asyncio.Event()
        self.told: list[Any] = []
        self.numbers: list[int] = []

    async def begin(self, next_sequence: int) -> None:
        self.told.append(("begin", next_sequence))

    async def send_items(self, items: list[WatchedItem]) -> None:
        if self.polls == 0:
            await self.takes.wait()
        self.polls = max(self.polls - 1, 0)
        self.numbers += [one.sequence for one in items]

    async def send_slow(self, waited_s: float) -> None:
        self.told.append("slow")

    async def send_heartbeat(self) -> None:
        self.told.append("heartbeat")

    async def end(self, ending: Ending) -> None:
        self.told.append(ending.reason)


def never() -> Ending | None:
    return None


def watch(items: Any, channel: Callable[[], MemoryChannel], why_over: Callable[[], Ending | None] = never) -> Any:
    async def work() -> tuple[Ending, MemoryChannel]:
        made = channel()
        return await asyncio.wait_for(Watcher(items, made, why_over).run(), 60), made

    return asyncio.run(work())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "SLOW_TIMEOUT_S", 0.2)
    monkeypatch.setattr(watchers, "SLOW_TOLD_S", 0.05)
    monkeypatch.setattr(watchers, "KEEP_INTERVAL_S", 0.02)


@pytest.mark.usefixtures("impatient")
def test_one_that_takes_nothing_is_given_up_with_a_reason_and_nothing_more_is_read_for_it() -> None:
    items = MemoryItems()
    ending, channel = watch(items, lambda: MemoryChannel(polls=3))
    assert ending.reason is Reason.SLOW and ending.can_resume
    assert channel.told == [("begin", 1), Reason.SLOW]
    assert channel.numbers == list(range(1, 31))
    assert items.polled == 40, "one poll's worth waited for it"
    assert items.kept > 0, "its node knew that it was there"


def test_one_that_was_slow_and_takes_again_is_told_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "SLOW_TOLD_S", 0.05)
    monkeypatch.setattr(watchers, "KEEP_INTERVAL_S", 0.02)
    items = MemoryItems()

    def open_channel() -> MemoryChannel:
        channel = MemoryChannel(polls=1)
        asyncio.get_running_loop().call_later(0.3, channel.takes.set)
        return channel

    def is_enough() -> Ending | None:
        return Ending(Reason.STOPPING, "enough") if items.polled >= 100 else None

    ending, channel = watch(items, open_channel, is_enough)
    assert ending.reason is Reason.STOPPING
    assert channel.told[:2] == [("begin", 1), "slow"]
    assert channel.numbers == list(range(1, len(channel.numbers) + 1))


def test_one_for_which_there_is_nothing_hears_that_it_is_still_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "HEARTBEAT_S", 0.01)

    class Silent(MemoryItems):
        def poll(self) -> Polled:
            self.polled += 1
            return Polled([], 0)

    items = Silent()
    ended = Ending(Reason.LOGGED_OUT, "over")
    ending, channel = watch(items, lambda: MemoryChannel(0), lambda: ended if items.polled > 9 else None)
    assert ending == ended and not ending.can_resume
    assert "heartbeat" in channel.told


def test_what_fails_before_the_beginning_is_a_status_and_after_it_an_end() -> None:
    gone = ArchiveError("deleted", code=ErrorCode.INVALID_POSITION)
    early, late = MemoryItems(), MemoryItems()
    early.error = gone
    with pytest.raises(ArchiveError):
        watch(early, lambda: MemoryChannel(1))

    def fail() -> Ending | None:
        late.error = gone if late.polled >= 30 else None
        return None

    ending, channel = watch(late, lambda: MemoryChannel(9), fail)
    assert ending == Ending(Reason.GONE, "deleted") and channel.numbers == list(range(1, 31))


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ArchiveError("x", code=ErrorCode.INVALID_POSITION), 410, Reason.GONE),
        (ArchiveError("x", code=ErrorCode.UNAUTHORISED_ACTION), 403, Reason.REFUSED),
        (ArchiveError("x", code=ErrorCode.MAX_REPLAYS), 503, Reason.FAILED),
        (SessionRejectedError("x"), 403, Reason.REFUSED),
        (NoPlaceError("x"), 429, Reason.FAILED),
        (ConfigurationError("x"), 400, Reason.FAILED),
        (ClusterError("x"), 503, Reason.FAILED),
    ],
)
def test_errors_are_statuses_and_ends(error: OrdoError, status: int, reason: Reason) -> None:
    assert (status_of(error), ending_of(error).reason) == (status, reason)


class MemoryLog:
    """A reader of the log with entries of these numbers."""

    position: int | None = 0

    def __init__(self, *sequences: int) -> None:
        self.entries = [
            LogEntry(64 * index, EntryKind.MESSAGE, 0, 0, 1, b"", sequence=sequence)
            for index, sequence in enumerate(sequences, 1)
        ]

    def poll(self, handler: Callable[[LogEntry], object], limit: int) -> int:
        entries, self.entries = self.entries[:limit], self.entries[limit:]
        for one in entries:
            handler(one)
        return len(entries)

    def keep_alive(self) -> None:
        pass

    def close(self) -> None:
        pass


def numbers_of(polled: Polled) -> list[int]:
    return [one.sequence for one in polled.items]


def test_a_log_with_all_numbers_is_handed_out() -> None:
    polled = LogItems(MemoryLog(4, 5, 6), 4).poll()
    assert numbers_of(polled) == [4, 5, 6] and polled.fragments == 3


@pytest.mark.parametrize(
    ("sequences", "begin", "good", "word", "reason"),
    [
        ((4, 5, 7, 8), 4, [4, 5], "message 6 is missing: the log goes on with 7", Reason.GONE),
        ((5,), 4, [], "message 4 is missing", Reason.GONE),
        ((4, 0), None, [4], "has no number", Reason.GONE),
        ((0,), None, [], "has no number", Reason.GONE),
        ((4, 4), None, [4], "message 4 came where 5 was expected", Reason.FAILED),
    ],
)
def test_a_gap_in_the_log_ends_the_watch_after_what_came_before_it(
    sequences: tuple[int, ...], begin: int | None, good: list[int], word: str, reason: Reason
) -> None:
    items = LogItems(MemoryLog(*sequences), begin)
    if good:
        assert numbers_of(items.poll()) == good
    for _ in range(2):
        with pytest.raises(OrdoError, match=word):
            items.poll()
    if good:
        ending, channel = watch(LogItems(MemoryLog(*sequences), begin), lambda: MemoryChannel(9))
        assert channel.numbers == good and channel.told[-1] is reason and word in ending.text
        assert ending.can_resume is (reason is Reason.FAILED), "what is gone is asked for in vain, again and again"
    else:
        with pytest.raises(OrdoError) as refused:
            watch(LogItems(MemoryLog(*sequences), begin), lambda: MemoryChannel(9))
        assert status_of(refused.value) == 410


def test_a_failure_of_a_topic_s_reader_comes_after_what_it_had_handed_out() -> None:
    class BrokenFeed:
        next_sequence, is_reading = 1, True

        def poll(self, handler: Callable[[FeedMessage], object], limit: int) -> int:
            handler(FeedMessage("trades", 1, 64, 0, 0, b""))
            raise ArchiveError("deleted", code=ErrorCode.INVALID_POSITION)

    items = TopicItems(cast(FeedReader, BrokenFeed()))
    assert numbers_of(items.poll()) == [1]
    with pytest.raises(ArchiveError, match="deleted"):
        items.poll()


def test_it_does_not_pause_while_messages_before_the_wanted_one_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of the log that begins at a number reads from the snapshot before it on, and passes over the rest."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(delay_s: float) -> None:
        pauses.append(delay_s)
        await sleep(0)

    class LateLog(MemoryLog):
        def poll(self, handler: Callable[[LogEntry], object], limit: int) -> int:
            return super().poll(lambda one: handler(one) if one.sequence >= 9_990 else None, limit)

    monkeypatch.setattr(asyncio, "sleep", note)
    log = LateLog(*range(1, 10_001))
    over = Ending(Reason.STOPPING, "enough")
    watch(LogItems(log, 9_990), lambda: MemoryChannel(9), lambda: None if log.entries else over)
    assert len(pauses) > 100 and set(pauses) == {0}
    pauses.clear()
    watch(LogItems(MemoryLog(), 1), lambda: MemoryChannel(9), lambda: over if len(pauses) > 5 else None)
    assert min(pauses) >= watchers.POLL_PAUSE_S, "where nothing is read, it rests"


# Over a real connection, whose client does not read


class LongItems(MemoryItems):
    """Polls of 100 KB."""

    def poll(self) -> Polled:
        items, fragments = super().poll()
        return Polled([one._replace(text='"' + "x" * 10_000 + '"') for one in items], fragments)


async def read_late(channel_of: Callable[[web.Request], Any], head: bytes) -> tuple[Ending, int, bytes]:
    """How a watch ends whose client reads nothing until then, how many bytes were read for it, what it finds then."""
    items, ended = LongItems(), asyncio.get_running_loop().create_future()

    async def serve(request: web.Request) -> web.StreamResponse:
        channel = channel_of(request)
        ended.set_result(await Watcher(items, channel, never).run())
        return channel.response  # type: ignore[no-any-return]

    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    with socket.socket() as client:
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n")
        ending = await asyncio.wait_for(ended, 60)
        read_bytes = items.polled * 10_000
        found = bytearray()
        while part := await asyncio.wait_for(loop.sock_recv(client, 1 << 20), 60):
            found += part
    await runner.cleanup()
    return ending, read_bytes, bytes(found)


SOCKET_HEAD = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("channel_of", "head"), [(EventStream, b"Connection: close\r\n"), (Socket, SOCKET_HEAD)])
def test_a_client_that_does_not_read_is_bounded_and_finds_the_reason_at_the_end(channel_of: Any, head: bytes) -> None:
    ending, read_bytes, found = asyncio.run(read_late(lambda request: channel_of(request, {}), head))
    assert ending.reason is Reason.SLOW
    assert read_bytes < 16 << 20, "what the sockets of this machine buffer, and one poll's worth"
    assert len(found) <= read_bytes * 1.1 and b"x" * 10_000 in found
    assert b'"reason": "slow"' in found[-400:]
