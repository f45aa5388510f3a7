"""A persistent subscription to a recording of a served archive, in a process of its own (docs/ARCHIVE.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from ordo.archive.client.async_subscription import AsyncPersistentSubscription
from ordo.archive.client.client import ArchiveClient
from ordo.archive.client.persistent_subscription import PersistentSubscription
from ordo.archive.client.replay import RecordedMessage
from ordo.runtime.errors import ChannelError, ConfigurationError, UnknownRecordingError
from ordo.transport.streams.publication import Publication
from tests.archive.served import Served, send
from tests.patience import patient
from tests.snippets import texts_of

PAGE = (Path(__file__).parents[2] / "docs" / "ARCHIVE.md").read_text()
STREAM = 7
LENGTH_BYTES = 4000
BATCH = 50
TOO_MUCH_BYTES = 8 << 20
"""More than sockets and windows between a sender and a receiver hold."""


class EnoughError(Exception):
    """The program has shown what it does."""


class Stream:
    """A stream that waits for the archive alone; its messages are numbered."""

    def __init__(self, client: ArchiveClient, control: str) -> None:
        self.client = client
        self.count = 0
        client.start_recording(f"{control}|endpoint=127.0.0.1:0|gtag=1", STREAM)
        channel = f"{control}|fc=tagged,g:1/1|term-length=64k"
        self.publication: Publication = client.transport.add_exclusive_publication(channel, STREAM)
        while not self.publication.is_connected:
            client.work()

    def send(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        send(self.client, self.publication, [b"%d" % number * (LENGTH_BYTES // 8) for number in numbers])
        self.count += count


def test_a_subscriber_that_is_too_slow_once_loses_nothing(served: Served, free_port: Callable[[], int]) -> None:
    control = f"aeron:udp?control=127.0.0.1:{free_port()}|control-mode=dynamic"
    live = f"{control}|endpoint=127.0.0.1:0"
    got: list[RecordedMessage] = []
    changes: list[bool] = []
    with served.connect() as client:
        stream = Stream(client, control)
        stream.send(BATCH)
        subscription = PersistentSubscription.connect(
            served.address, 0, live, STREAM, silence_s=patient(0.3), on_change=changes.append
        )
        deadline_s = time.monotonic() + patient(60)

        def poll(limit: int = 256) -> None:
            assert time.monotonic() < deadline_s, (changes, len(got), stream.count, subscription.problem)
            client.work()
            if subscription.poll(got.append, limit) == 0:
                subscription.park(1_000_000)

        def send_in_turns() -> None:
            """Slowly enough for a subscriber of one small window to keep up."""
            for _ in range(BATCH):
                stream.send(1)
                while len(got) < stream.count:
                    poll()

        with subscription:
            while not subscription.is_live or len(got) < stream.count:
                poll()
            send_in_turns()
            assert changes == [True]
            changes.clear()
            while False not in changes:
                if stream.count * LENGTH_BYTES < TOO_MUCH_BYTES:
                    stream.send(BATCH)
                poll(limit=2)
            while not subscription.is_live or len(got) < stream.count:
                poll()
            send_in_turns()
        assert changes[:2] == [False, True]
        assert [int(message.payload[: len(str(number))]) for number, message in enumerate(got)] == [
            *range(stream.count)
        ]
        assert got[-1].position == stream.publication.position
        check_a_loop_that_is_left_early(served.address, live, got)
        assert asyncio.run(read_in_asyncio(served.address, live, stream)) == got
        run_program_of_the_page(served.address, live, stream.count)


def check_a_loop_that_is_left_early(address: str, live: str, got: list[RecordedMessage]) -> None:
    """What was polled with the message at which a loop ends is there for the next one, and for `poll`."""
    with PersistentSubscription.connect(address, 0, live, STREAM) as again:
        found = [*islice(again, 10), *islice(again, 10)]
        assert again.position == found[-1].position
        again.poll(found.append, 1)
        assert found == got[:21]


async def drive(stream: Stream, is_done: Callable[[], bool]) -> None:
    """Runs the sender while the reader waits."""
    while not is_done():
        stream.client.work()
        await asyncio.sleep(0.001)


async def read_in_asyncio(address: str, live: str, stream: Stream) -> list[RecordedMessage]:
    """All messages, and one more that comes while it is waited for."""
    async with AsyncPersistentSubscription.connect(address, 0, live, STREAM) as subscription:
        found = [await anext(subscription) for _ in range(stream.count)]
        last = asyncio.ensure_future(anext(subscription))
        await drive(stream, lambda: subscription.is_live)
        assert not last.done() and subscription.position == found[-1].position
        stream.send(1)
        await drive(stream, last.done)
        number, message = stream.count - 1, last.result()
        assert message.payload == b"%d" % number * (LENGTH_BYTES // 8)
        assert message.position == stream.publication.position
    assert [message async for message in subscription] == []
    return found


def run_program_of_the_page(address: str, live: str, count: int) -> None:
    """Runs it against a recording that has `count` messages."""
    (program,) = (text for text in texts_of(PAGE, "python") if "PersistentSubscription" in text)
    text = program.replace("10.0.0.1:8010", address)
    text = text.replace("aeron:udp?control=10.0.0.3:4000|control-mode=dynamic|endpoint=10.0.0.9:0", live)
    assert "10.0.0" not in text
    seen: list[int] = []

    def handle(payload: bytes) -> None:
        assert payload.startswith(b"%d" % len(seen))
        seen.append(len(payload))
        if len(seen) == count:
            raise EnoughError

    with pytest.raises(EnoughError):
        exec(text, {"handle": handle})


def test_mistakes_are_one_line(served: Served) -> None:
    with pytest.raises(ConfigurationError, match="silence_s=0: must be a number above 0"):
        PersistentSubscription.connect(served.address, 0, "aeron:ipc", STREAM, silence_s=0)
    with pytest.raises(ConfigurationError, match='position=-1: must be None, "live", or a number of bytes'):
        PersistentSubscription.connect(served.address, 0, "aeron:ipc", STREAM, position=-1)
    with pytest.raises(ConfigurationError, match="identity='0': must be the 32 hexadecimal digits"):
        PersistentSubscription.connect(served.address, 0, "aeron:ipc", STREAM, identity="0")
    with pytest.raises(ChannelError):
        PersistentSubscription.connect(served.address, 0, "udp://127.0.0.1:1", STREAM)
    with (
        PersistentSubscription.connect(served.address, 5, "aeron:ipc", STREAM) as subscription,
        pytest.raises(UnknownRecordingError, match="no recording 5"),
    ):
        next(iter(subscription))
