"""A writer that is killed at any point of an offer: behind each store into the log buffer that others can see.

What was written is read whole or not at all, and what others offer behind it is read, in order (log-buffer.md §9).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.runtime.native.memory import FileMemoryProvider
from tests.transport.driver_world import MS, SMALL_TERM, Node, S, World
from tests.transport.single_steps import killed_after_change

MTU = 1408
HEADER_LENGTH = 32
UNBLOCK_NS = 15 * S
FILLER = b"." * (1024 - HEADER_LENGTH)
CHANNELS = {
    "ipc": f"aeron:ipc?term-length={SMALL_TERM}|mtu={MTU}",
    "udp": f"aeron:udp?endpoint=10.0.0.1:4000|term-length={SMALL_TERM}|mtu={MTU}",
}
MESSAGES = {
    "one frame": b"the last words" * 90,
    "three frames": b"the last words" * 200,
}
STORES_MIN = {"one frame": 5, "three frames": 13}
"""At least so many are seen: to the tail, and to each frame a negative length, two of the header, and the length."""


@pytest.fixture
def node(shm_path: Path) -> Iterator[Node]:
    """One host in virtual time whose log buffers are files, so that a forked process writes into the same ones."""
    world = World(step_ns=MS, publication_unblock_timeout_ns=UNBLOCK_NS)
    yield world.node("10.0.0.1", memory=FileMemoryProvider(), directory=str(shm_path / "driver"))
    world.close()


class Stream:
    """A publication that is shared with a process that will die, and a subscription to it."""

    def __init__(self, node: Node, channel: str, stream_id: int) -> None:
        self.node = node
        self.subscription = node.client.add_subscription(channel, stream_id)
        self.publication = node.client.add_publication(channel, stream_id)
        self.messages: list[bytes] = []
        node.world.until(lambda: self.publication.is_connected and self.subscription.is_connected)

    def poll(self) -> int:
        return self.subscription.poll_messages(lambda data, _: self.messages.append(bytes(data)), 100)

    def offer(self, message: bytes) -> None:
        self.node.world.until(lambda: self.publication.offer(message) > 0)

    def fill_to(self, position: int) -> None:
        """Messages that are read at once, until the next one begins there or behind."""
        while self.publication.position < position:
            self.offer(FILLER)
            self.node.world.until(lambda: self.poll() or FILLER in self.messages)
            self.messages.clear()
        self.node.world.until(lambda: self.publication.available_window > SMALL_TERM // 4)

    def look(self, length_bytes: int) -> Callable[[], bytes]:
        """What others go by: tails and active term, and the headers of frames in this term and in the next one."""
        folder = Path(self.node.driver.directory) / "publications"
        with (folder / f"{self.publication.original_registration_id}.logbuffer").open("rb") as file:
            log = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        first = self.publication.position % SMALL_TERM
        frames = range(0, length_bytes + MTU, MTU)
        headers = [first + at for at in frames if first + at < SMALL_TERM] + [SMALL_TERM + at for at in frames]

        def look() -> bytes:
            metadata = log[3 * SMALL_TERM : 3 * SMALL_TERM + 32]
            return metadata + b"".join([log[at : at + HEADER_LENGTH] for at in headers])

        return look

    def offer_until_killed(self, message: bytes, count: int) -> bool:
        """Whether the process that offers the message was killed behind its `count`-th store, before its end."""

        def offer() -> None:
            while self.publication.offer(message) < 0:
                pass

        return killed_after_change(offer, self.look(len(message)), count)

    def read_until(self, last: bytes) -> list[bytes]:
        self.node.world.until(lambda: self.poll() >= 0 and last in self.messages, 4 * UNBLOCK_NS, step_ns=50 * MS)
        return self.messages

    def close(self) -> None:
        self.publication.close()
        self.subscription.close()


@pytest.mark.parametrize("position", [0, SMALL_TERM - 1024], ids=["within a term", "at its end"])
@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("media", CHANNELS)
def test_a_writer_that_is_killed_at_any_point_of_an_offer(node: Node, media: str, name: str, position: int) -> None:
    message = MESSAGES[name]
    whole: list[bool] = []
    was_killed = True
    while was_killed:
        stream = Stream(node, CHANNELS[media], stream_id=10 + len(whole))
        stream.fill_to(position)
        was_killed = stream.offer_until_killed(message, count=len(whole))
        stream.offer(b"after")
        found = stream.read_until(b"after")
        stream.close()
        assert found in ([b"after"], [message, b"after"]), f"killed behind store {len(whole)}"
        whole.append(len(found) == 2)
    assert whole == sorted(whole), "once it is there, it stays"
    assert not whole[0] and whole[-1] and len(whole) > STORES_MIN[name]
