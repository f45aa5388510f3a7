"""A door without sockets and clocks: its cluster is a harness with `ordo:Topics`, its time passes when all wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar, cast

from ordo import Topics
from ordo.gateway.doors.turns import Turns
from ordo.gateway.kafka.connection import ByteBudget, Connection
from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.server import TICK_S, RequestCalls
from ordo.gateway.kafka.service.orders import OrderAnswer, OrderKind, decode_answer, encode_order, split_order
from ordo.gateway.kafka.sessions import ClusterSessions
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.topic_table import TopicTable
from ordo.gateway.kafka.wire.frames import FrameStream
from ordo.gateway.kafka.wire.records import Stored
from ordo.runtime.errors import OrdoError, RejectedError, SessionRejectedError
from ordo.service_api.testing.harness import Message, OpenSession, ServiceHarness

T = TypeVar("T")
TOKEN = b"secret"
SETTINGS = KafkaSettings(endpoints=["127.0.0.1:9"])
ADDRESS = "127.0.0.1:9092"
OF_DOORS = (OrderKind.REGISTER, OrderKind.RENEW, OrderKind.LEAVE)
"""What doors do by themselves: it is not counted, and meets no trouble."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when nothing else is to be done."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 1_000.0

    def time(self) -> float:
        return self._now_s

    def spend(self, seconds: float) -> None:
        """Let time pass before anybody else has a turn, as long work does."""
        self._now_s += seconds

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now_s = max(self._now_s, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def is_of_door(payload: bytes) -> bool:
    """Return whether an order is one that doors give by themselves."""
    kind, _ = split_order(payload) or (None, b"")
    return kind in OF_DOORS


async def pass_time(seconds: float) -> None:
    """Let virtual time pass."""
    is_over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, is_over.set)
    await is_over.wait()


class MemorySession:
    """A session with the cluster, and the store of what is read."""

    credentials = b""
    users = 1
    is_open = True

    def __init__(self, service: type[Topics] = Topics) -> None:
        self.harness = ServiceHarness(service).execute(OpenSession(1, 1))
        self.turns = Turns()
        self.orders = 0
        self.queries = 0
        self.trouble: OrdoError | None = None
        """What everything that is asked ends with."""
        self.refusal: OrdoError | None = None
        """Why it cannot be opened."""
        self.answer_client: Callable[[bytes], Awaitable[OrderAnswer]] | None = None
        """What answers orders of clients instead of the service."""
        self.log: list[Stored] = []
        """What is read as `ordo.log`: numbers from wherever it begins."""

    def _meet_trouble(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    async def open(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        await asyncio.sleep(0)

    async def order(self, payload: bytes, timeout_s: float | None = None) -> OrderAnswer:
        if not is_of_door(payload):
            self._meet_trouble()
            self.orders += 1
            if self.answer_client is not None:
                return await self.answer_client(payload)
        now_ms = int(asyncio.get_running_loop().time() * 1_000)
        self.harness.execute(Message(1, now_ms, payload))
        effect = self.harness.effects[-1]
        if effect.kind == "reject":
            raise RejectedError(bytes(effect.value).decode())
        return decode_answer(bytes(effect.value))

    async def append(self, orders: Sequence[bytes], line: object = None) -> list[OrderAnswer | OrdoError]:
        found = await asyncio.gather(*map(self.order, orders), return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException) and not isinstance(one, OrdoError):
                raise one
        return cast(list[OrderAnswer | OrdoError], found)

    async def query(self, kind: OrderKind, **fields: object) -> Any:
        if kind is not OrderKind.DOORS:
            self._meet_trouble()
            self.queries += 1
        return json.loads(self.harness.service.on_query(encode_order(kind, **fields)))

    async def read(self, _: bytes, topic: str, number: int, bytes_max: int, deadline_s: float) -> list[Stored]:
        self._meet_trouble()
        feed = self.harness.feed(topic)
        stored = self.log if topic == LOG_TOPIC else [Stored(at, 10 * at, one) for at, one in enumerate(feed, 1)]
        found = [one for one in stored if one.number >= number]
        if not found:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline_s):
                    await asyncio.Event().wait()
        return found[:2]

    async def oldest(self, _: bytes, topic: str, deadline_s: float) -> int:
        return self.log[0].number if topic == LOG_TOPIC else 1

    async def log_position(self) -> int:
        self._meet_trouble()
        return len(self.log)

    async def log_end(self, _: bytes, position: int, deadline_s: float, is_near: bool = False) -> int:
        return self.log[position - 1].number + 1 if position else 1

    def covers(self, _: bytes, topic: str, number: int) -> bool:
        return any(one.number == number for one in self.log)

    def keep_end(self, _: bytes, number: int) -> None:
        pass

    async def first_since(self, _: bytes, topic: str, timestamp: int, deadline_s: float) -> Stored | None:
        if topic == LOG_TOPIC:
            return next((one for one in self.log if one.timestamp >= timestamp), None)
        found = await self.read(b"", topic, max((timestamp + 9) // 10, 1), 1, deadline_s)
        return found[0] if found else None

    def end_of(self, _: bytes, topic: str) -> int:
        return 0


class Refused(MemorySession):
    """The session of a wrong token."""

    async def open(self) -> None:
        raise SessionRejectedError("who are you?")


class MemorySessions:
    """Lets in clients with TOKEN, and those without one unless `is_strict`."""

    def __init__(self, session: MemorySession, is_strict: bool = False) -> None:
        self._session = session
        self._is_strict = is_strict
        self.in_use = 0

    def take_own(self) -> MemorySession:
        return self._session

    def active(self) -> list[MemorySession]:
        return [self._session]

    def take(self, credentials: bytes | None) -> MemorySession:
        self.in_use += 1
        is_known = credentials == TOKEN or (credentials is None and not self._is_strict)
        return self._session if is_known else Refused()

    def give_back(self, session: MemorySession, is_refused: bool = False) -> None:
        self.in_use -= 1


class MemoryTransport(asyncio.Transport):
    """A client without a socket: `stream` takes what it sends, and `sent` is what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_read = asyncio.Event()
        self.is_read.set()
        self.stream = FrameStream(lambda _: None)
        self.stream.connection_made(self)

    async def send(self, *pieces: bytes) -> None:
        """Hand bytes over as an event loop does: as many as the stream takes at a time, while it reads."""
        for piece in pieces:
            data = memoryview(piece)
            while data:
                await self.is_read.wait()
                buffer = self.stream.get_buffer(-1)
                count = min(len(buffer), len(data))
                buffer[:count], data = data[:count], data[count:]
                self.stream.buffer_updated(count)

    async def send_all(self, *pieces: bytes) -> None:
        """Hand bytes over, and then that no more come."""
        await self.send(*pieces)
        self.stream.eof_received()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return ("127.0.0.1", 9092) if name in ("peername", "sockname") else default

    def pause_reading(self) -> None:
        assert self.is_read.is_set()
        self.is_read.clear()

    def resume_reading(self) -> None:
        assert not self.is_read.is_set()
        self.is_read.set()

    def frames(self) -> list[bytes]:
        """Return the responses, each with its length."""
        frames, at = [], 0
        while at < len(self.sent):
            end = at + 4 + int.from_bytes(self.sent[at : at + 4], "big")
            frames.append(bytes(self.sent[at:end]))
            assert end <= len(self.sent)
            at = end
        return frames


class MemoryDoor:
    """A door with one cluster, to which clients connect one after the other, or at once. Made in a running loop."""

    def __init__(
        self,
        settings: KafkaSettings = SETTINGS,
        is_strict: bool = False,
        service: type[Topics] = Topics,
        beside: MemoryDoor | None = None,
        address: str = ADDRESS,
    ) -> None:
        self.settings = settings
        self.is_at_work = False
        self.address = address
        self.session: MemorySession = MemorySession(service) if beside is None else beside.session
        self.sessions = MemorySessions(self.session, is_strict)
        self.budget = ByteBudget(settings.requests_bytes_max)
        memory: Any = self.session
        sessions: Any = self.sessions
        self.calls = RequestCalls(settings, sessions, TopicTable(), memory)

    async def serve(self, *pieces: bytes, to: MemoryTransport | None = None) -> MemoryTransport:
        """Serve a client that sends these bytes and then nothing more. Raises what ends the connection."""
        client = to or MemoryTransport()
        if self.is_at_work:
            return await self._serve(pieces, client)
        async with self.at_work():
            return await self._serve(pieces, client)

    async def _serve(self, pieces: Sequence[bytes], client: MemoryTransport) -> MemoryTransport:
        sending = asyncio.create_task(client.send_all(*pieces))
        try:
            await self.connection(client).serve()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return client

    def connection(self, client: MemoryTransport) -> Connection:
        """Return what serves a client that may still send."""
        sessions = cast(ClusterSessions, self.sessions)
        return Connection(self.settings, sessions, self.budget, self.calls, client.stream)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Run what a door does by itself."""
        tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self.calls.lease.run(self.address))]
        self.is_at_work = True
        try:
            yield
        finally:
            self.is_at_work = False
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            self.calls.groups.tick()
            await asyncio.sleep(TICK_S)


def framed(request: bytes) -> bytes:
    """Return a request with its length before it."""
    return len(request).to_bytes(4, "big") + request
